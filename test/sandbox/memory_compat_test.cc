// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Claims written for the standalone memory driver, and settings and figures that need a node around them.

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <map>

#include "memory_fixture.h"

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;

// The classes that the standalone driver installs, and its users' claims, as its documentation has them: the
// amounts in `size`, selectors on what it publishes, its aliases of the NUMA node, one node by
// matchAttribute.
struct StandaloneClass {
  const char* name;
  const char* page_size;
  bool is_hugetlb;
};
constexpr StandaloneClass kClasses[] = {
    {"dra.memory", "4Ki", false}, {"dra.hugepages-2m", "2Mi", true}, {"dra.hugepages-1g", "1Gi", true}};

struct StandaloneClaim {
  const char* name;
  const char* devices;                        // spec.devices
  std::map<std::string, std::string> sizes;   // request → size, in the quantities of the claim
  std::map<std::string, json::value> select;  // what the selectors of all requests want
  const char* mems;
  std::map<std::string, std::uint64_t> limits;
  std::vector<const char*> variables;  // behind DRAMEMORY_<uid>_
};

const std::vector<StandaloneClaim>& standalone_claims() {
  static const std::vector<StandaloneClaim> claims = {
      {"hugepages",
       R"({"requests": [{"name": "hp", "exactly": {"deviceClassName": "dra.hugepages-2m",
           "capacity": {"requests": {"size": "256Mi"}}}}]})",
       {{"hp", "256Mi"}},
       {},
       "0",
       {{"2MB", 256 * kMiB}},
       {"NUMANodes=0", "hugepages_2Mi=numanode:0,size:256Mi"}},
      {"memory",
       R"({"requests": [{"name": "mem", "exactly": {"deviceClassName": "dra.memory",
           "selectors": [{"cel": {"expression":
             "device.driver == 'dra.memory' && device.attributes['dra.cpu'].numaNodeID == 1"}}],
           "capacity": {"requests": {"size": "512Mi"}}}}]})",
       {{"mem", "512Mi"}},
       {{"dra.cpu/numaNodeID", 1}},
       "1",
       {},
       {"NUMANodes=1", "memory=numanode:1,size:512Mi"}},
      {"one-node",
       R"({"requests": [
           {"name": "mem", "exactly": {"deviceClassName": "dra.memory", "capacity": {"requests": {"size": "1Gi"}},
            "selectors": [{"cel": {"expression":
              "device.attributes['resource.kubernetes.io'].numaNode == 1"}}]}},
           {"name": "hp", "exactly": {"deviceClassName": "dra.hugepages-2m",
            "selectors": [{"cel": {"expression": "device.attributes['dra.net'].numaNode == 1"}}]}},
           {"name": "big", "exactly": {"deviceClassName": "dra.hugepages-1g",
            "capacity": {"requests": {"size": "1Gi"}}}}],
           "constraints": [{"matchAttribute": "resource.kubernetes.io/numaNode"}]})",
       {{"mem", "1Gi"}, {"hp", "2Mi"}, {"big", "1Gi"}},
       {{"resource.kubernetes.io/numaNode", 1}, {"dra.net/numaNode", 1}},
       "1",
       {{"2MB", 2 * kMiB}, {"1GB", 1024 * kMiB}},
       {"NUMANodes=1", "memory=numanode:1,size:1Gi", "hugepages_2Mi=numanode:1,size:2Mi",
        "hugepages_1Gi=numanode:1,size:1Gi"}}};
  return claims;
}

class StandaloneClaims : public MemoryDriver {
 protected:
  void pages(int node_id, const char* size, int count) {
    const std::filesystem::path pool =
        folder_->path() /
        fmt::format("host/sys/devices/system/node/node{}/hugepages/hugepages-{}", node_id, size);
    std::filesystem::create_directories(pool);
    for (const char* file : {"nr_hugepages", "free_hugepages", "surplus_hugepages"})
      std::ofstream(pool / file) << (file[0] == 's' ? 0 : count) << "\n";
  }

  // The first published device with the attributes that the class and the selectors want.
  std::string device_for(const std::string& device_class, const std::map<std::string, json::value>& select) {
    const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                     [&](const StandaloneClass& c) { return c.name == device_class; });
    if (found == std::end(kClasses)) return "no such class";
    std::map<std::string, json::value> wanted = select;
    wanted["resource.kubernetes.io/pageSize"] = found->page_size;
    wanted["resource.kubernetes.io/hugeTLB"] = found->is_hugetlb;
    for (const json::object& slice : node().slices()) {
      const json::object& spec = slice.at("spec").as_object();
      if (spec.at("driver").as_string() != kMemoryDriver) continue;
      for (const json::value& device : spec.at("devices").as_array()) {
        const json::object& has = device.at("attributes").as_object();
        const bool fits = std::all_of(wanted.begin(), wanted.end(), [&](const auto& want) {
          const json::value* value = has.if_contains(want.first);
          return value != nullptr && value->as_object().begin()->value() == want.second;
        });
        if (fits) return std::string(device.at("name").as_string());
      }
    }
    return "no such device";
  }
};

TEST_F(StandaloneClaims, ArePreparedWithoutEdits) {
  NodeOptions options;
  options.memory = "{enabled: true}";
  ASSERT_NO_FATAL_FAILURE(
      bring_up({.sockets = 2, .cores = 2, .threads = 2, .hugepages = 192}, std::move(options)));
  if (IsSkipped()) return;
  pages(1, "1048576kB", 1);
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
    return device_for("dra.hugepages-1g", {}) == "hugepages-1gi-numa001";
  })) << log();
  for (const StandaloneClaim& c : standalone_claims()) {
    SCOPED_TRACE(c.name);
    const json::object devices = json::parse(c.devices).as_object();
    std::map<std::string, MemoryWish> by_request;
    for (const json::value& request : devices.at("requests").as_array()) {
      const std::string name(request.at("name").as_string());
      by_request[name] = {
          device_for(std::string(request.at("exactly").at("deviceClassName").as_string()), c.select),
          c.sizes.at(name)};
    }
    const PodInfo pod = Node::new_pod(c.name);
    const Result<ClaimName> claim = node().make_allocated_claim(c.name, pod, devices, by_request);
    ASSERT_OK(claim);
    const Pod running = started(pod, {*claim});
    const ContainerView view = container(running);
    EXPECT_EQ(view.mems, c.mems);
    EXPECT_EQ(view.hugepage_limits, c.limits);
    for (const char* variable : c.variables) {
      EXPECT_TRUE(
          std::count(view.env.begin(), view.env.end(), fmt::format("DRAMEMORY_{}_{}", claim->uid, variable)))
          << variable << " in " << fmt::format("{}", fmt::join(view.env, " "));
    }
    ASSERT_OK(node().end_pod_of(running, kMemoryOnly));
  }
}

TEST_F(MemoryDriver, LeavesFreeHugepagesToTheKernelWhereToldTo) {
  ASSERT_NO_FATAL_FAILURE(up("{enabled: true, verifyFreeHugepages: false}"));
  std::ofstream(folder_->path() /
                "host/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages")
      << "10\n";
  const PodInfo pod = Node::new_pod("app");
  const Pod running = started(pod, {memory_claim("c", pod, {{"hugepages-2mi-numa000", "64Mi"}})});
  EXPECT_EQ(container(running).hugepage_limits, (std::map<std::string, std::uint64_t>{{"2MB", 64 * kMiB}}));
}

// Two nodes of 16 GiB, each with 128 MiB in hugepages, less what is reserved.
TEST_F(MemoryDriver, MeasuresWhatItOffersBeyondTheNode) {
  for (const auto& [section, drift] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"{enabled: true}", std::int64_t{512} << 20},
           {"{enabled: true, reserved: \"1:memory=1Gi\"}", -(std::int64_t{512} << 20)}}) {
    NodeOptions options;
    options.memory = section;
    options.allocatable_memory = "32000Mi";
    ASSERT_NO_FATAL_FAILURE(ready(two_nodes(), std::move(options)));
    ASSERT_NO_FATAL_FAILURE(wait_for_both());
    EXPECT_TRUE(eventually(std::chrono::seconds(10),
                           [&] {
                             return metrics().find(fmt::format("\ndra_memory_accounting_drift_bytes {}\n",
                                                               drift)) != std::string::npos;
                           }))
        << drift << "\n"
        << metrics() << log();
    node_.reset();
  }
  // A node that does not say what pods can have: no figure is made up.
  ASSERT_NO_FATAL_FAILURE(up());
  EXPECT_EQ(metrics().find("\ndra_memory_accounting_drift_bytes "), std::string::npos);
}

}  // namespace
}  // namespace dracpu::sandbox
