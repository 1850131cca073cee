# Read by ctest before it runs: the entries of a program's tests that run together (FlyballTargets.cmake).

# flyball_add_tests_together(<name> <program> <filter> <prefix> [<property> <value>]...): an entry for each suite that
# the filter leaves, or for each parameter of a parameterised suite. The cases of an entry are one process.
function(flyball_add_tests_together name program filter prefix)
  if(NOT EXISTS ${program})
    add_test(${prefix}${name}_NOT_BUILT ${prefix}${name}_NOT_BUILT)
    return()
  endif()
  execute_process(COMMAND ${program} --gtest_list_tests --gtest_filter=${filter} OUTPUT_VARIABLE list
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " *#[^\n]*" "" list "${list}")  # values of parameters, which may hold any sign
  string(REPLACE "\n" ";" lines "${list}")
  set(entries "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^  .*(/[^/]+)$")
      list(APPEND entries "${suite}*${CMAKE_MATCH_1}")
    elseif(line MATCHES "^  ")
      list(APPEND entries "${suite}*")
    else()
      set(suite "${line}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES entries)
  foreach(entry IN LISTS entries)
    add_test("${prefix}${entry}" ${program} --gtest_filter=${entry})
    set_tests_properties("${prefix}${entry}" PROPERTIES ${ARGN})
  endforeach()
endfunction()
