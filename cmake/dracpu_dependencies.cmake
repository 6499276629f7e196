# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
#
# Third-party libraries, one INTERFACE target each (dracpu_ext_*), so that the choice between shared
# and static linking is made here and nowhere else. Reasons for each: docs/dev/dependencies.md.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(Protobuf REQUIRED)
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
pkg_check_modules(GRPCPP REQUIRED grpc++_unsecure)
pkg_check_modules(YAMLCPP REQUIRED yaml-cpp)

function(dracpu_external name)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE ${ARGN})
endfunction()

if(DRACPU_STATIC)
  # What grpc++_unsecure.pc leaves out of a static link is added by hand: c-ares, address_sorting, re2, upb.
  pkg_get_variable(GRPC_LIBDIR grpc++_unsecure libdir)
  pkg_check_modules(ABSL_ALL REQUIRED absl_status absl_statusor absl_synchronization absl_flat_hash_map
    absl_flat_hash_set absl_cord absl_strings absl_str_format absl_time absl_optional absl_variant absl_bind_front
    absl_random_random absl_hash absl_raw_hash_set absl_inlined_vector absl_cleanup absl_any_invocable)
  list(TRANSFORM ABSL_ALL_STATIC_LIBRARIES REPLACE "^(absl_.*)$" "-l:lib\\1.a")
  dracpu_external(dracpu_ext_protobuf -l:libprotobuf.a Threads::Threads)
  dracpu_external(dracpu_ext_grpc -Wl,--start-group -l:libgrpc++_unsecure.a -l:libgrpc_unsecure.a -l:libgpr.a
    -l:libaddress_sorting.a -l:libupb.a -l:libre2.a -l:libcares.a -l:libz.a -l:libprotobuf.a
    ${ABSL_ALL_STATIC_LIBRARIES} -Wl,--end-group Threads::Threads)
  dracpu_external(dracpu_ext_openssl -l:libssl.a -l:libcrypto.a)
  dracpu_external(dracpu_ext_boost_json -l:libboost_json.a)
  dracpu_external(dracpu_ext_yaml -l:libyaml-cpp.a)
  # Abseil of arm64 names libatomic for all who might call it; nothing here does.
  add_link_options(-static-libstdc++ -static-libgcc -Wl,--as-needed)
else()
  dracpu_external(dracpu_ext_protobuf protobuf::libprotobuf Threads::Threads)
  dracpu_external(dracpu_ext_grpc ${GRPCPP_LINK_LIBRARIES} protobuf::libprotobuf Threads::Threads)
  dracpu_external(dracpu_ext_openssl OpenSSL::SSL OpenSSL::Crypto)
  dracpu_external(dracpu_ext_boost_json Boost::json)
  dracpu_external(dracpu_ext_yaml ${YAMLCPP_LINK_LIBRARIES})
endif()
target_compile_definitions(dracpu_ext_boost_json INTERFACE BOOST_ALL_NO_LIB)

# No library to link: Boost.Asio and Beast, CLI11 and spdlog are headers; fmt is compiled in src/base/fmt_library.cc.

if(DRACPU_TESTS)
  find_package(GTest REQUIRED)
  pkg_check_modules(HWLOC REQUIRED hwloc)
  dracpu_external(dracpu_ext_hwloc ${HWLOC_LINK_LIBRARIES})
endif()
if(DRACPU_BENCH)
  find_package(benchmark REQUIRED)
endif()
