// Whether two engines compute on one card.
#pragma once

#include "policy/facts.hpp"

namespace flyball::policy {

// Sets backend.<id>.shares_card of the engines with devices, where nobody set it and
// hardware.gpu.discrete_count is known. On a machine described only in words, each engine that may be
// available has a card of its own while there are enough cards.
void derive_shared_cards(Facts& facts);

}  // namespace flyball::policy
