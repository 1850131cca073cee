# The few functions the CMakeLists of the house are written in.

# Flags for our own code only; found packages are system headers.
add_library(flyball_flags INTERFACE)
target_include_directories(flyball_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(flyball_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror>)
target_compile_definitions(flyball_flags INTERFACE
  FLYBALL_VERSION="${PROJECT_VERSION}" BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION
  BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(flyball_flags INTERFACE Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these falsely in std::variant/expected moves, coroutine frames and vectors that relocate (-O1).
  target_compile_options(flyball_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized -Wno-dangling-pointer -Wno-restrict -Wno-stringop-overflow>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's stable_sort calls what the same header deprecates.
  target_compile_options(flyball_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
if(FLYBALL_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Boost.Asio's fences, which GCC's tsan does not model: it warns, and sees the locks around them.
  target_compile_options(flyball_flags INTERFACE -Wno-tsan)
endif()
# What one build has computed and kept is not another's to go on with (backends/engine/build_id).
add_link_options(-Wl,--build-id=sha1)
if(FLYBALL_SANITIZE)
  add_compile_options(-fsanitize=${FLYBALL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FLYBALL_SANITIZE})
  set(FLYBALL_KEEP_LOADED ${CMAKE_SOURCE_DIR}/tests/harness/keep_loaded.cpp)  # a source of every program
endif()

# With FLYBALL_UNITY (presets that are built whole: release, sanitizers, fuzz) rooms marked UNITY and all tests compile in
# batches: what costs there is reading Asio, CLI11, nlohmann-json or GoogleTest once a file, not the file. Other presets
# keep one object a file.
option(FLYBALL_UNITY "Compile header-heavy rooms and tests in batches" OFF)
function(flyball_unity target)
  if(FLYBALL_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()

# flyball_library(<folder> [UNITY] [LINK targets...]): every .cpp of the current folder as target fb_<folder>.
# Files named *_avx2.cpp, *_avx512.cpp and *_neon.cpp get their instruction set and nothing else does (dispatch is at
# run time); other processors' files are left out.
function(flyball_library folder)
  cmake_parse_arguments(ARG "UNITY" "" "LINK" ${ARGN})
  string(REPLACE "/" "_" target "fb_${folder}")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.cpp$")
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|ARM64")
    list(FILTER sources EXCLUDE REGEX "_neon\\.cpp$")
  endif()
  if(NOT sources)
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE flyball_flags ${ARG_LINK})
    return()
  endif()
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC flyball_flags ${ARG_LINK})
  if(ARG_UNITY)
    flyball_unity(${target})
  endif()
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    elseif(source MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni;-mprefer-vector-width=512")
    elseif(source MATCHES "_neon\\.cpp$")
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod")
    endif()
  endforeach()
endfunction()

# flyball_embed(<target> <symbol> <file>): the file's bytes in the binary, read through the generated header
# "embedded/<symbol>.hpp": std::span<const std::byte> flyball::embedded::<symbol>().
function(flyball_embed target symbol file)
  set(dir ${CMAKE_BINARY_DIR}/generated/embedded)
  file(MAKE_DIRECTORY ${dir})
  set(asm ${dir}/${symbol}.S)
  file(CONFIGURE OUTPUT ${asm} CONTENT [[
    .section .rodata
    .global flyball_embedded_@symbol@
    .global flyball_embedded_@symbol@_end
    .balign 64
flyball_embedded_@symbol@:
    .incbin "@file@"
flyball_embedded_@symbol@_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
]] @ONLY NEWLINE_STYLE UNIX)
  file(CONFIGURE OUTPUT ${dir}/${symbol}.hpp CONTENT [[
#pragma once
#include <cstddef>
#include <span>
extern "C" const std::byte flyball_embedded_@symbol@[];
extern "C" const std::byte flyball_embedded_@symbol@_end[];
namespace flyball::embedded {
inline std::span<const std::byte> @symbol@() noexcept {
  return {flyball_embedded_@symbol@, flyball_embedded_@symbol@_end};
}
}  // namespace flyball::embedded
]] @ONLY)
  set_source_files_properties(${asm} TARGET_DIRECTORY ${target} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${asm})
endfunction()

# flyball_test(<name> LABEL <area> [TOGETHER] SOURCES ... LINK ...): a GoogleTest program; each test is a ctest entry.
# Exit 77 means SKIPPED (tests/harness/main.cpp). Cases of parameterised tests are named by their generators, not by
# printed values (NO_PRETTY_VALUES), which may be bytes or addresses. TOGETHER: see flyball_tests_together.
function(flyball_test name)
  cmake_parse_arguments(ARG "TOGETHER" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/harness/main.cpp ${FLYBALL_KEEP_LOADED})
  set_property(GLOBAL APPEND PROPERTY FLYBALL_TEST_PROGRAMS $<TARGET_FILE:${name}>)
  flyball_unity(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} flyball_flags GTest::gtest GTest::gmock)
  target_compile_definitions(${name} PRIVATE FLYBALL_SOURCE_DIR="${CMAKE_SOURCE_DIR}" FLYBALL_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set(properties ENVIRONMENT "XDG_STATE_HOME=${CMAKE_BINARY_DIR}/state/${name}" LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
  if(ARG_TOGETHER)
    flyball_tests_together(${name} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES PROPERTIES ${properties})
  endif()
endfunction()

# flyball_tests_together(<program> [PREFIX p] [FILTER f] PROPERTIES ...): each suite of the program is one ctest entry and
# one process, a parameterised suite one for each of its parameters. For fixtures whose cases share a device and compiled
# kernels, which each process makes anew. The output names the case that failed.
function(flyball_tests_together program)
  cmake_parse_arguments(ARG "" "PREFIX;FILTER" "PROPERTIES" ${ARGN})
  if(NOT ARG_FILTER)
    set(ARG_FILTER "*")
  endif()
  set(properties "")
  foreach(property IN LISTS ARG_PROPERTIES)
    string(APPEND properties " [==[${property}]==]")
  endforeach()
  set(entries ${CMAKE_CURRENT_BINARY_DIR}/${ARG_PREFIX}${program}_together.cmake)
  file(GENERATE OUTPUT ${entries} CONTENT
    "include([==[${CMAKE_SOURCE_DIR}/packaging/cmake/AddTestsTogether.cmake]==])
flyball_add_tests_together(${program} [==[$<TARGET_FILE:${program}>]==] [==[${ARG_FILTER}]==] [==[${ARG_PREFIX}]==]${properties})
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${entries})
endfunction()

# flyball_script_test(<name> LABEL <area> [SERIAL] COMMAND ...): exit 77 means SKIPPED. SERIAL: it measures times, and
# nothing else runs beside it.
function(flyball_script_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT" "COMMAND" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
    RUN_SERIAL ${ARG_SERIAL}
    ENVIRONMENT "XDG_STATE_HOME=${CMAKE_BINARY_DIR}/state/${name};POCL_CACHE_DIR=${CMAKE_BINARY_DIR}/test-kernels/pocl;FLYBALL=$<TARGET_FILE:flyball>;FLYBALL_SOURCE_DIR=${CMAKE_SOURCE_DIR};FLYBALL_BINARY_DIR=${CMAKE_BINARY_DIR}")
  if(FLYBALL_SANITIZE)  # in a process that the script started and whose exit status it does not see
    set_tests_properties(${name} PROPERTIES FAIL_REGULAR_EXPRESSION "(Thread|Address|Leak)Sanitizer:;: runtime error: ")
  endif()
endfunction()

# flyball_unittest(<name> LABEL <area> [SERIAL] SCRIPT <file.py> [ENVIRONMENT K=V...]): each test method of a Python
# unittest script is a ctest entry <name>.<method>, so that entries are short and run side by side. A skipped method says
# SKIPPED.
function(flyball_unittest name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT;SCRIPT" "ENVIRONMENT" ${ARGN})
  set(serial "")
  if(ARG_SERIAL)
    set(serial SERIAL)
  endif()
  cmake_path(ABSOLUTE_PATH ARG_SCRIPT BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARG_SCRIPT})
  file(STRINGS ${ARG_SCRIPT} lines REGEX "^(class|    def test_)")
  foreach(line IN LISTS lines)
    if(line MATCHES "^class ([A-Za-z0-9_]+)")
      set(class ${CMAKE_MATCH_1})
    elseif(line MATCHES "def test_([A-Za-z0-9_]+)")
      set(entry ${name}.${CMAKE_MATCH_1})
      flyball_script_test(${entry} LABEL ${ARG_LABEL} ${serial} TIMEOUT ${ARG_TIMEOUT}
        COMMAND ${CMAKE_COMMAND} -E env FLYBALL_SANITIZED=${FLYBALL_SANITIZE} ${ARG_ENVIRONMENT}
                ${FLYBALL_PYTHON} ${ARG_SCRIPT} ${class}.test_${CMAKE_MATCH_1})
      set_tests_properties(${entry} PROPERTIES SKIP_REGULAR_EXPRESSION "OK \\(skipped")
    endif()
  endforeach()
endfunction()

# flyball_fuzz(<name> LINK ...): tests/fuzz/<name>.cpp defines LLVMFuzzerTestOneInput. With the fuzz preset it is a
# fuzzer, and its test looks for findings for a while, from the committed corpus tests/fuzz/corpus/<name> on; otherwise
# that corpus runs through it as a unit test.
set(FLYBALL_FUZZ_SECONDS 60 CACHE STRING "How long each fuzz target runs")
if(FLYBALL_FUZZ)
  add_custom_target(fuzzers)
endif()
function(flyball_fuzz name)
  cmake_parse_arguments(ARG "" "LABEL" "LINK" ${ARGN})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(FLYBALL_FUZZ)
    add_executable(fuzz_${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}.cpp)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${name} PRIVATE ${ARG_LINK} flyball_flags)
    add_dependencies(fuzzers fuzz_${name})
    set(found ${CMAKE_BINARY_DIR}/fuzz/${name})
    file(MAKE_DIRECTORY ${found})
    math(EXPR limit "${FLYBALL_FUZZ_SECONDS} + 240")
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} -max_total_time=${FLYBALL_FUZZ_SECONDS} -timeout=20
      -print_final_stats=1 -artifact_prefix=${found}. ${found} ${corpus})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${limit})
  else()
    add_executable(fuzz_${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}.cpp ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
    target_link_libraries(fuzz_${name} PRIVATE ${ARG_LINK} flyball_flags)
    add_test(NAME fuzz_corpus.${name} COMMAND fuzz_${name} ${corpus})
    set_tests_properties(fuzz_corpus.${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 120)
  endif()
endfunction()
