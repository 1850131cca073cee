#!/bin/sh
# Every case of a parameterised test has a name of words: no number alone, no bytes, no address, which differs from run to run.
# names.sh PROGRAM...
found=0
for program in "$@"; do
  list=$("$program" --gtest_list_tests) || { echo "$program: cannot list its tests"; found=1; continue; }
  bad=$(printf '%s\n' "$list" | grep -E '^  [^ ]*/[0-9]+( |$)|-byte object <|0x[0-9a-f]{6}') || continue
  printf '%s: these cases need a name generator, or their type a PrintTo:\n%s\n' "$program" "$bad"
  found=1
done
exit $found
