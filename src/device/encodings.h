// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// CPU sets and sibling layouts as attribute texts: spec driver-behaviours section 6, RULINGS 21.
//
// cpuIDs       canonical list, "0-3,8"
// cpuIDsV2     64-bit words, lowest CPUs first, hex without leading zeros, runs of equal words as "N*WORD"
// smtLayout    "SET>STRIDE;…;SET": pairs by ascending stride, then CPUs without a sibling
// smtLayoutV2  the same with "SET>STRIDE*THREADS" for cores of more than two threads
//
// A text longer than the API's limit is not published, and never cut.
//
// Threads  Pure.

#ifndef DRACPU_DEVICE_ENCODINGS_H_
#define DRACPU_DEVICE_ENCODINGS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "base/cpuset.h"
#include "topology/topology.h"

namespace dracpu::device {

inline constexpr std::size_t kMaxStringValue = 64;  // resource.k8s.io/v1, bytes of one attribute value

// A layout text, and whether only version 2 of the attribute can carry it.
struct SmtLayout {
  std::string text;
  bool is_version_2 = false;
};

std::string cpu_words(const CpuSet& cpus);

// Of all usable CPUs. Nothing if the threads of a core are not evenly spaced: no form can say that.
std::optional<SmtLayout> smt_layout(const topology::Topology& topology);

}  // namespace dracpu::device

#endif  // DRACPU_DEVICE_ENCODINGS_H_
