// A chat in the words of its model, as far as the model's file tells them: its tools as text where the chat
// template has no place for them, and the constraint that holds its answers to calls. Pure.
#pragma once

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api {

// `file`: what the model's file says of itself; nullptr: not known.
bool suits_any_model(const Generate& request, const BackendInfo* file);
// unsupported_feature, about "suffix": the model has no infill tokens; about "tools": the constraint of calls
// cannot be written for the model's format.
Result<void> suit_to_model(Generate& request, const BackendInfo* file);

}  // namespace flyball::api
