// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The fields of API objects that the rules look at, read from what the server lists.
//
// Input   One object of a list (items lack kind and apiVersion). Unknown fields are ignored.
// Errors  kCorrupt  a field has the wrong type; the text names its path
// Threads Values; pure functions.

#ifndef DRACPU_UPGRADE_OBJECTS_H_
#define DRACPU_UPGRADE_OBJECTS_H_

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/claim.h"

namespace dracpu::upgrade {

// A ResourceClaim, or what a ResourceClaimTemplate would make.
struct ClaimObject {
  bool is_template = false;
  kube::Claim claim;                     // allocation: of a ResourceClaim only
  std::vector<std::string> expressions;  // CEL of all selectors

  std::string object() const;  // "ResourceClaim team/a"
};
Result<ClaimObject> read_claim(const boost::json::object& item);
Result<ClaimObject> read_template(const boost::json::object& item);

// Which object exactly, for a delete that must not hit another one.
struct Revision {
  std::string uid;
  std::string version;  // resourceVersion
};

struct ClassObject {
  std::string name;
  Revision revision;
  std::vector<std::string> expressions;
  std::vector<std::string> opaque_drivers;  // of spec.config, in order; empty text: no opaque configuration
  bool is_helms = false;                    // of a chart's release

  std::string object() const { return "DeviceClass " + name; }
};
Result<ClassObject> read_class(const boost::json::object& item);

struct SliceObject {
  std::string name;
  Revision revision;
  std::string driver;
  std::string node;
  bool has_individual = false;   // a device that is one CPU
  bool has_machine = false;      // the device that is the whole machine
  bool has_shared = false;       // a device that several claims may share
  bool lost_sharing = false;     // a device with capacity that only one claim can have
  bool has_list_values = false;  // an attribute with several values
  std::vector<std::string> devices{};

  std::string object() const { return "ResourceSlice " + name; }
};
Result<SliceObject> read_slice(const boost::json::object& item);

// How a device's name was formed.
enum class DeviceForm { kNumaNode, kSocket, kMachine, kIndividual, kOther };
DeviceForm form_of(std::string_view device);

// A DaemonSet that runs this driver or one of its forerunners.
struct DriverSet {
  std::string ns;
  std::string name;
  std::map<std::string, std::string> selector;       // spec.selector.matchLabels
  std::map<std::string, std::string> node_selector;  // of the pods
  std::string release;                               // Helm's instance label; may be empty
  std::string max_surge;                             // as written; empty: not stated
  bool is_this_driver = false;                       // has the control socket's folder
  bool is_memory_driver = false;                     // the standalone one for memory: another program
  bool is_standby_ready = false;                     // DRACPU_STANDBY_READY=true
  bool runs_nowhere = false;                         // the controller has seen it and wants no pod of it
  bool is_rolling = false;                           // some pods are not yet those of its template
  std::string driver_name;                           // as its configuration says; empty: not known
  std::vector<std::string> words;                    // of the command line, the program's name left out

  struct Mount {
    std::string path;
    std::string config_map;                    // empty: another kind of volume
    std::map<std::string, std::string> files;  // file → key, if the volume picks keys
  };
  std::vector<Mount> mounts;

  std::string object() const { return "DaemonSet " + ns + "/" + name; }
};
// Nothing if the DaemonSet is none of the driver's.
Result<std::optional<DriverSet>> read_driver_set(const boost::json::object& item);

struct ConfigMapKey {
  std::string name;
  std::string key;
};
// The ConfigMap and key behind a file in the container.
std::optional<ConfigMapKey> config_map_of(const DriverSet& set, std::string_view path);

struct PodObject {
  std::string ns;
  std::string name;
  std::vector<std::string> claims;  // ResourceClaims, by name
  std::set<std::string> hugepages;  // resources that its containers ask for, "hugepages-2Mi"

  std::string object() const { return "Pod " + ns + "/" + name; }
};
Result<PodObject> read_pod(const boost::json::object& item);

struct NodeObject {
  std::string name;
  std::optional<int> kubelet_minor;
  bool is_linux = true;

  std::string object() const { return "Node " + name; }
};
Result<NodeObject> read_node(const boost::json::object& item);

// What a kubelet runs with (its configz).
struct Kubelet {
  std::string node;
  std::optional<int> minor;
  std::string cpu_manager;            // "none", "static"; empty: not told
  std::string memory_manager;         // "None", "Static"
  std::map<std::string, bool> gates;  // stated ones only

  std::string object() const { return "Node " + node; }
};
Result<Kubelet> read_configz(const boost::json::object& answer);

// The minor number of "v1.34.2-eks-1", 34.
std::optional<int> minor_of(std::string_view version);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_OBJECTS_H_
