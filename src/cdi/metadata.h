// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Files that tell a container what it was given (KEP-5304; spec kubelet-dra-wire section 4).
//
// Output   <plugin folder>/dra-device-metadata/<namespace>_<claim>/<request>/metadata.json with the content,
//          and the CDI file <driver>_metadata_<UID>_<request>.json that mounts it below
//          /var/run/kubernetes.io/dra-device-attributes in the container. Mode 0644, folders 0755.
//          Replaced atomically, not synced: after a crash the next prepare writes them again.
// Input    Names come from the API server; each becomes part of a path and is checked.
// Errors   kInvalidInput a name that cannot be part of a path; kUnavailable the kernel refused.
// Threads  Any; two calls for the same claim are the caller's to order.

#ifndef DRACPU_CDI_METADATA_H_
#define DRACPU_CDI_METADATA_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace dracpu::cdi {

struct MetadataPlace {
  ClaimUid uid;
  std::string ns;
  std::string claim;
  std::string pod_claim;  // name in the pod, for a claim made from a template; else empty
  std::string request;    // main request name
};

// Of a claim, as its metadata files name it.
struct ClaimPlace {
  std::string ns;
  std::string name;
};

class MetadataFiles {
 public:
  // Touches nothing.
  MetadataFiles(const std::filesystem::path& plugin_dir, std::filesystem::path cdi_dir, std::string driver);

  // The CDI device id that mounts the file.
  Result<std::string> write(const MetadataPlace& place, std::string_view content) const;
  // The id of what an earlier write left; nothing if its CDI file is not there.
  std::optional<std::string> existing(const ClaimUid& uid, std::string_view request) const;
  // Whose claim it is, if a file of it is there and tells.
  std::optional<ClaimPlace> place_of(const ClaimUid& uid) const;
  // Success if there was nothing. `ns` and `claim` may be empty if they are not known.
  Status remove(const ClaimUid& uid, std::string_view ns, std::string_view claim) const;
  // Removes CDI files of claims that are not in `keep`; how many.
  Result<std::size_t> sweep(const std::set<ClaimUid>& keep) const;

 private:
  std::string device_id(const ClaimUid& uid, std::string_view request) const;
  std::filesystem::path cdi_file(const ClaimUid& uid, std::string_view request) const;

  std::filesystem::path dir_;
  std::filesystem::path cdi_dir_;
  std::string driver_;
};

}  // namespace dracpu::cdi

#endif  // DRACPU_CDI_METADATA_H_
