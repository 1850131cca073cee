#include "tests/bench/vocabulary_model.hpp"

#include <fstream>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/gguf_writer.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/model/synthetic.hpp"

namespace flyball::bench {
namespace {

bool is_of_text(std::string_view key) {
  return key.starts_with("tokenizer.");
}

void copy(model::GgufWriter& out, std::string_view key, const model::GgufValue& value) {
  if (const auto* unsigned_value = std::get_if<std::uint64_t>(&value))
    return out.set_u32(key, static_cast<std::uint32_t>(*unsigned_value));
  if (const auto* signed_value = std::get_if<std::int64_t>(&value))
    return out.set_u32(key, static_cast<std::uint32_t>(*signed_value));
  if (const auto* real = std::get_if<double>(&value)) return out.set_f32(key, static_cast<float>(*real));
  if (const auto* flag = std::get_if<bool>(&value)) return out.set_bool(key, *flag);
  if (const auto* text = std::get_if<std::string_view>(&value)) return out.set_string(key, *text);
  const auto& array = std::get<model::GgufArray>(value);
  if (array.type == model::GgufType::string)
    return out.set_strings(key, std::vector<std::string>(array.strings.begin(), array.strings.end()));
  if (array.type == model::GgufType::f32) {
    std::vector<float> values;
    for (std::uint64_t i = 0; i < array.count; ++i) values.push_back(static_cast<float>(array.float_at(i)));
    return out.set_f32s(key, values);
  }
  std::vector<std::int32_t> values;
  for (std::uint64_t i = 0; i < array.count; ++i)
    values.push_back(static_cast<std::int32_t>(array.int_at(i)));
  out.set_i32s(key, values);
}

}  // namespace

Result<void> write_vocabulary_model(const std::filesystem::path& out, const std::string& shape,
                                    const std::filesystem::path& vocabulary) {
  const auto file = model::MappedFile::open(vocabulary);
  if (!file) return pass(file);
  const auto text = model::Gguf::parse(file->bytes());
  if (!text) return pass(text);
  const auto tokens = text->get_array("tokenizer.ggml.tokens");
  if (!tokens) return pass(tokens);
  if (*tokens == nullptr) return fail(ErrorCode::model_invalid, "the file has no tokens");
  auto spec = model::parse_synthetic_shape(shape);
  if (!spec) return pass(spec);
  spec->vocab = static_cast<std::uint32_t>((*tokens)->count);
  spec->type = kernels::DType::q8_0;
  const auto bytes = model::synthetic_bytes(*spec);
  if (!bytes) return pass(bytes);
  const auto weights = model::Gguf::parse(*bytes);
  if (!weights) return pass(weights);

  model::GgufWriter writer;
  for (const auto& [key, value] : weights->metadata())
    if (!is_of_text(key)) copy(writer, key, value);
  for (const auto& [key, value] : text->metadata())
    if (is_of_text(key)) copy(writer, key, value);
  for (const auto& tensor : weights->tensors())
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.dims).first(tensor.n_dims));
  std::ofstream to(out, std::ios::binary);
  const std::string header = writer.header();
  to << header;
  for (std::size_t i = 0; i < weights->tensors().size(); ++i) {
    to.seekp(static_cast<std::streamoff>(header.size() + writer.tensor_offset(i)));
    const auto data = weights->tensors()[i].data;
    to.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  }
  to.close();
  if (!to) return fail(ErrorCode::internal, "cannot write " + out.string());
  return {};
}

}  // namespace flyball::bench
