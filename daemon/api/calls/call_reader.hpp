// The parts that the notations of calls share, as coroutines over one answer's bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "config/packed_json.hpp"
#include "daemon/api/calls/event_batch.hpp"
#include "daemon/api/calls/json_scanner.hpp"
#include "daemon/api/calls/reading.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::calls {

struct CallReader {
  // `ids`: other texts make other ids. `json`: as or_json.
  CallReader(std::shared_ptr<const ToolSet> tools, std::string_view ids, bool json);

  ByteFeed feed;
  EventBatch events;
  const std::shared_ptr<const ToolSet> tools;  // null: no calls are read
  const std::string ids;
  const bool or_json;  // as make_parser has it; false where no calls are read
  std::string space;   // white space before what comes next: it is text unless that is a call

  // The function of a tool: {"name", "parameters"}. Absent where there is none.
  JsonView function(std::string_view name) const;
  bool is_tool(std::string_view name) const { return static_cast<bool>(function(name)); }
  bool is_tool_beginning(std::string_view text) const;  // a tool's name begins so

  void text(std::string_view bytes);
  // A call's events. `own_id` is its id if it is 1 to 64 of [A-Za-z0-9_.:-] and no earlier call's. Text that
  // was kept is read.
  void begin_call(std::string_view name, std::string_view own_id);
  // Text that is being kept where a call breaks stays kept.
  void end_call(bool complete);
  // All that was read so far is understood: it will not become text.
  void accept() { feed.keep(); }
  // The end of a section behind braces, brackets and commas too many, all of them read; none if it does not
  // come.
  Reading<bool> stray_close(std::string_view close);

  // Each returns false where the text goes on otherwise or ends, and has read nothing then. An empty text is
  // always there.
  Reading<bool> literal(std::string_view text);
  Reading<bool> is_next(std::string_view text);  // as literal(), and reads nothing
  Reading<bool> sees(std::string_view text);     // as comes(), and reads nothing
  Reading<bool> comes(std::string_view text);    // white space, then the text
  // These may have read a part.
  Reading<bool> name(std::string& out, std::size_t limit);         // as is_tool_name, as long as it goes
  Reading<bool> json_string(std::string& out, std::size_t limit);  // more bytes than that are left out
  Reading<bool> skip_json();                                       // any value
  // An object, a string that spells one, or null for an empty one; to `held`, or as events where that is
  // null.
  Reading<bool> arguments(std::string* held);
  // The same where an object is all that stands there.
  Reading<bool> object(std::string* held);

  // Up to the first of the ends, which is not read. False: the answer ended. No end begins with white space.
  // White space around reasoning is left out.
  Reading<bool> text_until(std::span<const std::string_view> ends);
  Reading<bool> reasoning_until(std::span<const std::string_view> ends);

  Reading<int> next_solid();  // reads white space, and returns the byte behind it, unread

 private:
  std::set<std::string, std::less<>> own_ids_;  // that calls have

  Reading<bool> matches(std::string_view text, bool behind_space, bool read);
  void put_arguments(std::string_view json, std::string* held);
  Reading<bool> spelled_object(std::string* held);
};

}  // namespace flyball::api::calls
