#include "daemon/cli/bench_chart.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "config/engine_kinds.hpp"

namespace flyball::cli {
namespace {

constexpr int kWidth = 760, kLabels = 150, kBars = 500, kLine = 20, kGap = 12, kPanelHead = 34;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  return out;
}

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string text_at(double x, int y, const char* style, const std::string& text) {
  return "<text x=\"" + number("%.1f", x) + "\" y=\"" + std::to_string(y) + "\" " + style + ">" +
         escaped(text) + "</text>\n";
}

std::string color_of(const std::string& engine) {
  const config::EngineKind* const kind = config::find_engine_kind(engine);
  return std::string(kind != nullptr ? kind->chart_color : "#7f7f7f");
}

// Draws the panel from y on; returns where it ends.
int panel(std::string& svg, int y, const char* name, std::span<const BenchResult> results,
          double BenchResult::*figure) {
  svg += text_at(20, y + 20, "class=\"panel\"", name);
  y += kPanelHead;
  double longest = 0;
  std::vector<std::uint32_t> groups;
  for (const BenchResult& r : results) {
    longest = std::max(longest, r.*figure);
    if (std::ranges::find(groups, r.streams) == groups.end()) groups.push_back(r.streams);
  }
  for (const std::uint32_t streams : groups) {
    bool first = true;
    for (const BenchResult& r : results) {
      if (r.streams != streams) continue;
      if (first)
        svg += text_at(20, y + 14, "", std::to_string(streams) + (streams == 1 ? " stream" : " streams"));
      first = false;
      const double width = longest > 0 ? kBars * (r.*figure) / longest : 0;
      svg += text_at(kLabels - 8, y + 14, "text-anchor=\"end\"", r.engine);
      svg += "<rect x=\"" + std::to_string(kLabels) + "\" y=\"" + std::to_string(y) + "\" width=\"" +
             number("%.2f", width) + "\" height=\"" + std::to_string(kLine - 4) + "\" fill=\"" +
             color_of(r.engine) + "\"/>\n";
      svg += text_at(kLabels + width + 6, y + 14, "", number("%.1f", r.*figure));
      y += kLine;
    }
    y += kGap;
  }
  return y;
}

}  // namespace

std::string bench_svg(const std::string& title, std::span<const std::string> notes,
                      std::span<const BenchResult> results) {
  std::string body = text_at(20, 28, "class=\"title\"", title);
  int y = 28;
  for (const std::string& note : notes) body += text_at(20, y += kLine, "class=\"small\"", note);
  y = panel(body, y + kGap, "Decode, tokens per second", results, &BenchResult::decode);
  y = panel(body, y, "Prefill, tokens per second", results, &BenchResult::prefill);
  const std::string size = "width=\"" + std::to_string(kWidth) + "\" height=\"" + std::to_string(y) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " + std::to_string(kWidth) +
         " " + std::to_string(y) +
         "\">\n<style>text{font:13px sans-serif;fill:#222}.title{font-size:18px;font-weight:bold}"
         ".panel{font-weight:bold}.small{fill:#555}</style>\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#fff\"/>\n" +
         body + "</svg>\n";
}

}  // namespace flyball::cli
