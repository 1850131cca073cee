#!/bin/sh
# What ctest reads from a test program: outcomes.sh PROGRAM
check() {  # status, filter
  "$program" --gtest_filter="$2" >/dev/null 2>&1
  got=$?
  [ "$got" = "$1" ] || { echo "$2 exits with $got, expected $1"; bad=1; }
}
program=$1
bad=0
check 0 'Outcome.Passes'
check 77 'Outcome.Skips'
check 1 'Outcome.FailsWithTheWordsOfASkip'
check 77 'SkippedSuite.*'
check 0 'Outcome.Passes:Outcome.Skips'
check 1 'Outcome.Skips:Outcome.Fails*'
exit $bad
