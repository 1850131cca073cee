// A chat in the words of its model, as far as the model's file tells them: its tools as text where the chat
// template has no place for them, and the constraint that holds its answers to calls. Pure.
#pragma once

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api {

// `file`: what the model's file says of itself; nullptr: not known. True: suit_to_model() writes nothing.
bool suits_any_model(const Generate& request, const BackendInfo* file);
// Bytes that suit_to_model() reads and writes.
std::size_t suited_bytes(const Generate& request);
// The prints of prompts that it changes are cleared.
// unsupported_feature, about "suffix": the model has no infill tokens; about "tools" or a tool's schema: the
// constraint of calls cannot be written for the model's format.
Result<void> suit_to_model(Generate& request, const BackendInfo* file);
// The refusal of request.base.constraint, as an answer to the client: it names the field that the constraint
// came from, and the place in that. It walks all of the constraint.
Error constraint_refusal(const Generate& request, const Error& refusal);

}  // namespace flyball::api
