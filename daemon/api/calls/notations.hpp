// The calls of one section of an answer, by notation. Each is called where the section begins: its opening,
// or the first call's, has come but is not read. It reads as many calls as there are, and leaves behind what
// it does not understand; text that it has read and not accepted is kept by the feed.
#pragma once

#include "daemon/api/calls/call_reader.hpp"
#include "daemon/api/calls/format_table.hpp"

namespace flyball::api::calls {

// Each returns whether the section was whole.
Reading<bool> json_calls(CallReader& reader, const FormatRow& row, const Section& section);
Reading<bool> named_calls(CallReader& reader, const FormatRow& row, const Section& section);
// Behind the section's opening.
Reading<bool> json_calls_behind_opening(CallReader& reader, const FormatRow& row, const Section& section);
// JSON or a name and JSON, behind row.call_open.
Reading<bool> calls_of_either_notation(CallReader& reader, const FormatRow& row, const Section& section);
Reading<bool> xml_calls(CallReader& reader, const FormatRow& row, const Section& section);

}  // namespace flyball::api::calls
