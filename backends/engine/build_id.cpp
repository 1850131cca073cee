#include "backends/engine/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "backends/model/pin.hpp"

namespace flyball::engine {
namespace {

// ELF notes: two sizes and a type, then name and content, each padded to four bytes.
std::string build_id_in(std::span<const unsigned char> notes) {
  const auto padded = [](std::size_t n) { return (n + 3) & ~std::size_t{3}; };
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    notes = notes.subspan(sizeof note);
    const std::size_t name = padded(note.n_namesz), content = padded(note.n_descsz);
    if (name > notes.size() || content > notes.size() - name) return {};
    constexpr char kGnu[] = "GNU";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof kGnu &&
        std::memcmp(notes.data(), kGnu, sizeof kGnu) == 0)
      return model::to_hex(notes.subspan(name, note.n_descsz));
    notes = notes.subspan(name + content);
  }
  return {};
}

// The first that the loader lists is the program itself.
int look(dl_phdr_info* info, std::size_t, void* into) {
  for (const ElfW(Phdr) & part : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    if (part.p_type != PT_NOTE) continue;
    // Mapped by the loader, as the header says.
    const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + part.p_vaddr);
    auto id = build_id_in({at, part.p_memsz});
    if (id.empty()) continue;
    *static_cast<std::string*>(into) = std::move(id);
    break;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id;
  dl_iterate_phdr(&look, &id);
  return id;
}

}  // namespace flyball::engine
