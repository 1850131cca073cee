#include "daemon/predict/prefix_blocks.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <variant>

namespace flyball::predict {
namespace {

// Takes a prompt's bytes in pieces. A block's hash is of its bytes and the hash of the block before it.
class Chain {
 public:
  Chain(std::string_view app, const KeyedHash& hash, PromptPrint& out) : hash_(hash), out_(out) {
    out.app = hash(app);
    std::memcpy(block_.data(), &out.app, sizeof out.app);
  }
  void take(std::string_view bytes) {
    out_.bytes += bytes.size();
    while (!bytes.empty() && out_.blocks.size() < kMostHashed / kBlockBytes) {
      const std::size_t n = std::min(bytes.size(), kBlockBytes - filled_);
      std::memcpy(block_.data() + kLink + filled_, bytes.data(), n);
      bytes.remove_prefix(n);
      if ((filled_ += n) < kBlockBytes) return;
      const std::uint64_t link = hash_({block_.data(), block_.size()});
      out_.blocks.push_back(link);
      std::memcpy(block_.data(), &link, sizeof link);
      filled_ = 0;
    }
  }

 private:
  static constexpr std::size_t kLink = sizeof(std::uint64_t);
  const KeyedHash& hash_;
  PromptPrint& out_;
  std::array<char, kLink + kBlockBytes> block_{};
  std::size_t filled_ = 0;
};

}  // namespace

std::uint64_t common_bytes(const PromptPrint& a, const PromptPrint& b) noexcept {
  // A block stands for all before it, too: the first that differs parts those that are alike from the others.
  std::size_t alike = 0, differs = std::min(a.blocks.size(), b.blocks.size());
  while (alike < differs) {
    const std::size_t middle = (alike + differs) / 2;
    if (a.blocks[middle] == b.blocks[middle])
      alike = middle + 1;
    else
      differs = middle;
  }
  return alike * kBlockBytes;
}

namespace {

void take_member(Chain& chain, std::string_view key, JsonView value) {
  chain.take(key);
  chain.take("\xff");  // no byte of a text
  chain.take(value.is_string() ? value.text() : value.bytes());
  chain.take("\xff");
}

// A message of a chat, so that one whose content goes on begins as it did: without the sizes of its parts,
// and its role first, wherever the client wrote it.
void take_message(Chain& chain, JsonView message) {
  if (!message.is_object()) return chain.take(message.bytes());
  if (const JsonView role = message.find("role")) take_member(chain, "role", role);
  for (const auto& [key, value] : message.members())
    if (key != "role") take_member(chain, key, value);
}

}  // namespace

PromptPrint print_of(const Prompt& prompt, std::string_view app, const KeyedHash& hash) {
  PromptPrint out;
  Chain chain(app, hash, out);
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    if (const JsonView tools = chat->tools.view()) chain.take(tools.bytes());
    if (const JsonView messages = chat->messages.view(); messages.is_array())
      for (const auto& message : messages.members()) take_message(chain, message.value);
  } else if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
    chain.take(text->text);
  } else if (const auto* infill = std::get_if<InfillPrompt>(&prompt)) {
    chain.take(infill->before);
    chain.take("\xff");  // no byte of a text: one document with two gaps is alike up to the first of them
    chain.take(*infill->after);
  } else {
    const std::vector<Token>& tokens = std::get<TokenPrompt>(prompt).tokens;
    chain.take({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)});
    out.tokens = static_cast<std::uint32_t>(tokens.size());
  }
  return out;
}

const KeyedHash& print_key() {
  static const KeyedHash key = KeyedHash::random();
  return key;
}

std::uint64_t PrefixBlocks::key_of(const Holder& holder, std::uint64_t block) noexcept {
  const std::uint64_t mixed = (block ^ holder.salt) * 0x9E3779B97F4A7C15;
  return mixed ^ mixed >> 32;
}

bool PrefixBlocks::holds(const Holder& holder, std::uint64_t block) const {
  const std::uint64_t key = key_of(holder, block);
  const std::size_t first = key % (kEntries / kWays) * kWays;
  for (std::size_t i = first; i < first + kWays; ++i)
    if (entries_[i].key == key && entries_[i].used > 0)
      return holder.room == 0 || holder.written - entries_[i].written <= holder.room;
  return false;
}

// A prompt's first blocks were used no earlier than its later ones, so those held are its beginning.
std::uint64_t PrefixBlocks::held(const Holder& holder, const PromptPrint& prompt) const {
  if (entries_.empty()) return 0;
  const auto end = std::partition_point(prompt.blocks.begin(), prompt.blocks.end(),
                                        [&](std::uint64_t block) { return holds(holder, block); });
  return static_cast<std::uint64_t>(end - prompt.blocks.begin()) * kBlockBytes;
}

void PrefixBlocks::forget(Holder& holder) {
  std::erase_if(owners_, [&](const auto& owner) { return owner.second.salt == holder.salt; });
  holder.salt = ++salts_;
}

// 0: free, or of a process that has ended.
std::size_t PrefixBlocks::entries_of(const Entry& entry) const {
  if (entry.used == 0) return 0;
  const auto it = owners_.find(entry.owner);
  return it == owners_.end() ? 0 : it->second.entries;
}

// A free one, if there is one.
PrefixBlocks::Entry& PrefixBlocks::oldest_of_largest(std::span<Entry> ways) const {
  Entry* out = nullptr;
  std::size_t most = 0;
  for (Entry& entry : ways) {
    const std::size_t entries = entries_of(entry);
    if (entries == 0) return entry;
    if (entries < most || (entries == most && entry.used > out->used)) continue;
    most = entries;
    out = &entry;
  }
  return *out;
}

void PrefixBlocks::computed(Holder& holder, const PromptPrint& prompt) {
  if (prompt.blocks.empty()) return;
  if (entries_.empty()) entries_.resize(kEntries);
  const std::uint64_t owner_key = key_of(holder, prompt.app);
  Owner& owner = owners_.try_emplace(owner_key, Owner{holder.salt, 0}).first->second;
  for (std::size_t b = prompt.blocks.size(); b-- > 0;) {  // the first block last: it is the latest
    const std::uint64_t key = key_of(holder, prompt.blocks[b]);
    const auto ways = std::span(entries_).subspan(key % (kEntries / kWays) * kWays, kWays);
    auto entry = std::ranges::find_if(ways, [&](const Entry& e) { return e.key == key && e.used > 0; });
    if (entry == ways.end()) {
      Entry& gives_way = oldest_of_largest(ways);
      if (entries_of(gives_way) > 0) --owners_.at(gives_way.owner).entries;
      ++owner.entries;
      entry = ways.begin() + (&gives_way - ways.data());
    }
    *entry = {key, owner_key, holder.written, ++uses_};
  }
}

}  // namespace flyball::predict
