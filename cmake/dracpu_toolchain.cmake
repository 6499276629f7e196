# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
#
# Compiler, warnings, sanitizers, compiler cache and linker for every target.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(dracpu_flags INTERFACE)
target_compile_options(dracpu_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wformat=2 -Werror)
target_include_directories(dracpu_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)

find_program(LLD_PROGRAM NAMES ld.lld)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()
add_link_options(-Wl,--gc-sections)
add_compile_options(-ffunction-sections -fdata-sections)

if(DRACPU_SANITIZE)
  add_compile_options(-fsanitize=${DRACPU_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DRACPU_SANITIZE})
endif()
if(DRACPU_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(dracpu_flags INTERFACE -Wthread-safety)
endif()
