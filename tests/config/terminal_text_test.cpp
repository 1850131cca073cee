#include "config/terminal_text.hpp"

#include <gtest/gtest.h>

namespace flyball {
namespace {

TEST(TerminalText, HoldsNothingThatSteersATerminal) {
  EXPECT_EQ(terminal_text("Gr\xC3\xB6\xC3\x9F"
                          "e \xE4\xBD\xA0 \xF0\x9F\x98\x80"),
            "Gr\xC3\xB6\xC3\x9F"
            "e \xE4\xBD\xA0 \xF0\x9F\x98\x80");
  EXPECT_EQ(terminal_text("a\x1b[2Jb\x7f\n"), "a?[2Jb??");
  EXPECT_EQ(terminal_text("a\xC2\x9B"
                          "b\xFF"
                          "c\xE2\x80\xAE"
                          "d\xE2\x81\xA9"
                          "e\xE4\xBD"),
            "a?b?c?d?e??");
}

TEST(TerminalText, IsCutBetweenCharacters) {
  EXPECT_EQ(terminal_text("abc", 2), "ab");
  EXPECT_EQ(terminal_text("a\u00e9", 2), "a");
  EXPECT_EQ(terminal_text("", 0), "");
}

}  // namespace
}  // namespace flyball
