// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The comparison text of a slice's spec; see slice_codec.h, "Content".
//
// Threads No state.

#ifndef DRACPU_KUBE_SLICE_CONTENT_H_
#define DRACPU_KUBE_SLICE_CONTENT_H_

#include <boost/json/fwd.hpp>
#include <string>

namespace dracpu::kube {

std::string slice_content(const boost::json::object& spec);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_SLICE_CONTENT_H_
