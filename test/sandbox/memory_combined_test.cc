// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Combined mode: CPUs and memory of one device, in one claim, one step and one answer; and what a change of
// the mode does to claims that are there.

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <fstream>

#include "base/file.h"
#include "memory_fixture.h"

namespace dracpu::sandbox {
namespace {

const std::vector<std::string> kCpuOnly{kDriverName};
constexpr const char* kCombined = "{enabled: true, mode: combined, rescanSeconds: 10}";
constexpr const char* kCpu = "dra.cpu/cpu";
constexpr const char* kMemory = "dra.memory/memory";
constexpr const char* kPages = "dra.memory/hugepages_2Mi";

class CombinedMemory : public MemoryTest {
 protected:
  void up() { ASSERT_NO_FATAL_FAILURE(MemoryTest::up(kCombined, kCpuOnly)); }

  ClaimName slot(const PodInfo& pod, const std::string& device,
                 const std::map<std::string, std::string>& amounts) {
    const Result<ClaimName> made =
        node().make_slot_claim(fmt::format("of-{}", pod.name), pod, device, amounts);
    EXPECT_OK(made);
    return made.ok() ? *made : ClaimName{};
  }
  // A pod of this name with a claim of its own.
  Pod slot_pod(const std::string& name, const std::string& device,
               const std::map<std::string, std::string>& amounts) {
    const PodInfo pod = Node::new_pod(name);
    return started(pod, {slot(pod, device, amounts)}, kCpuOnly);
  }
  std::string slot_refusal(const std::string& name, const std::string& device,
                           const std::map<std::string, std::string>& amounts) {
    const PodInfo pod = Node::new_pod(name);
    return refusal(pod, {slot(pod, device, amounts)}, kCpuOnly);
  }
  // The capacity of a published device; empty: there is none.
  std::string capacity(const std::string& device, const std::string& key) {
    for (const boost::json::object& slice : node().slices()) {
      for (const boost::json::value& d : slice.at("spec").at("devices").as_array()) {
        if (d.at("name").as_string() != device) continue;
        const boost::json::value* found = d.at("capacity").as_object().if_contains(key);
        return found == nullptr ? "" : std::string(found->at("value").as_string());
      }
    }
    return "";
  }
  std::size_t slices_of(const std::string& driver) {
    const std::vector<boost::json::object> all = node().slices();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const boost::json::object& s) {
      return s.at("spec").at("driver").as_string() == driver;
    }));
  }
  std::pair<int, std::string> readiness() {
    const auto got = node().probe("/readyz?verbose", Node::kControl);
    return got.ok() ? *got : std::pair(0, got.error().text);
  }
};

TEST_F(CombinedMemory, IsPublishedWithTheCpusAndNowhereElse) {
  ASSERT_NO_FATAL_FAILURE(up());
  EXPECT_EQ(slices_of(kDriverName), 1U);
  EXPECT_EQ(slices_of(kMemoryDriver), 0U);
  EXPECT_EQ(capacity("cpudevnuma001", kCpu), "4");
  EXPECT_EQ(capacity("cpudevnuma001", kMemory), fmt::format("{}Mi", 16384 - 128));
  EXPECT_EQ(capacity("cpudevnuma001", kPages), "128Mi");
  EXPECT_FALSE(std::filesystem::exists(node().folder() / "kubelet/plugins/dra.memory"));
  EXPECT_EQ(readiness().second.find("memory-"), std::string::npos) << readiness().second;
  EXPECT_NE(node().driver_log(1000).find("Combined memory is alpha"), std::string::npos);
}

TEST_F(CombinedMemory, ASlotIsPinnedKeptThroughAKillRefusedToOthersAndFreed) {
  ASSERT_NO_FATAL_FAILURE(up());
  Pod running = slot_pod("app", "cpudevnuma001", {{kCpu, "2"}, {kMemory, "15Gi"}, {kPages, "96Mi"}});
  ASSERT_EQ(running.claims.size(), 1U);
  const ClaimName& claim = running.claims[0];
  EXPECT_EQ(running.devices.size(), 3U) << "CPU, memory, metadata";
  const ContainerView view = container(running);
  const CpuSet cpus = cpus_of(running);
  EXPECT_EQ(cpus.size(), 2U);
  EXPECT_TRUE(cpus.is_subset_of(CpuSet::parse("2-3,6-7").value())) << cpus.to_string();
  EXPECT_EQ(view.mems, "1");
  EXPECT_EQ(view.hugepage_limits, (std::map<std::string, std::uint64_t>{{"2MB", 96 * kMiB}}));
  EXPECT_EQ(view.updates, 0U) << "all of it in the answer to its creation";
  const Result<std::string> cpu_file = read_file(cdi_file(claim, "cpu"));
  ASSERT_OK(cpu_file);
  const Result<std::string> memory_file = read_file(cdi_file(claim));
  ASSERT_OK(memory_file);
  const std::string shown = metrics();
  for (const char* line :
       {"dra_memory_allocated_bytes{numa_node=\"1\",resource=\"hugepages-2Mi\"} 100663296\n",
        "dra_memory_prepare_claims_total{result=\"success\"} 1\n", "dra_memory_resource_claims_active 1\n",
        "dra_cpu_allocated_cpus 2\n"}) {
    EXPECT_NE(shown.find(line), std::string::npos) << line;
  }
  const auto page = node().probe("/", Node::kStatusPage);
  ASSERT_OK(page);
  EXPECT_NE(page->second.find("<td>hugepages-2Mi</td><td>1</td><td>128Mi</td><td>96Mi</td><td>32Mi</td>"),
            std::string::npos)
      << page->second;

  for (int round = 0; round < 2; ++round) {
    if (round == 1) {
      std::filesystem::remove(cdi_file(claim, "cpu"));
      std::filesystem::remove(cdi_file(claim));
    }
    ASSERT_NO_FATAL_FAILURE(again(kCpuOnly));  // kill -9
    for (const auto& [kind, text] : {std::pair("cpu", &*cpu_file), {"memory", &*memory_file}}) {
      const Result<std::string> now = read_file(cdi_file(claim, kind));
      ASSERT_OK(now);
      EXPECT_EQ(*now, *text);
    }
    EXPECT_EQ(cpus_of(running), cpus);
    EXPECT_EQ(container(running).updates, 0U) << "nothing to put right";
    const std::string name = fmt::format("other-{}", round);
    const std::string memory = slot_refusal(name, "cpudevnuma001", {{kCpu, "1"}, {kMemory, "2Gi"}});
    EXPECT_NE(
        memory.find("device \"cpudevnuma001\", dra.memory/memory: 2Gi requested, 896Mi of 16256Mi left"),
        std::string::npos)
        << memory;
    const std::string pages = slot_refusal(name + "-p", "cpudevnuma001", {{kCpu, "1"}, {kPages, "64Mi"}});
    EXPECT_NE(pages.find("dra.memory/hugepages_2Mi: 64Mi requested, 32Mi of 128Mi left"), std::string::npos)
        << pages;
    const std::string full = slot_refusal(name + "-c", "cpudevnuma001", {{kCpu, "3"}, {kMemory, "1Mi"}});
    EXPECT_NE(full.find("needs 3 CPUs of device \"cpudevnuma001\", 2 are free there"), std::string::npos)
        << full;
    const Result<std::string> second = node().add_container(running, "second");
    ASSERT_FALSE(second.ok());
  }
  const Result<std::string> state = read_file(node().folder() / "kubelet/plugins/dracpu/state.json");
  ASSERT_OK(state);
  EXPECT_EQ(state->find("of-other"), std::string::npos) << "what was refused holds nothing";

  ASSERT_OK(node().end_pod_of(running, kCpuOnly));
  EXPECT_FALSE(std::filesystem::exists(cdi_file(claim, "cpu")));
  EXPECT_FALSE(std::filesystem::exists(cdi_file(claim)));
  EXPECT_NE(metrics().find("dra_memory_resource_claims_active 0\n"), std::string::npos);
  EXPECT_NE(metrics().find("dra_cpu_allocated_cpus 0\n"), std::string::npos);
  const Pod all = slot_pod("all", "cpudevnuma001", {{kCpu, "3"}, {kMemory, "16256Mi"}, {kPages, "128Mi"}});
  EXPECT_EQ(container(all).mems, "1");
}

TEST_F(CombinedMemory, CpusAloneAreNotPinnedToMemoryAndMemoryAloneNotToCpus) {
  ASSERT_NO_FATAL_FAILURE(up());
  const Pod cpus = slot_pod("cpus", "cpudevnuma000", {{kCpu, "2"}, {kMemory, "0"}});
  EXPECT_EQ(cpus_of(cpus).size(), 2U);
  EXPECT_EQ(container(cpus).mems, "");
  EXPECT_TRUE(container(cpus).hugepage_limits.empty());
  EXPECT_FALSE(std::filesystem::exists(cdi_file(cpus.claims[0])));
  const Pod second = slot_pod("second", "cpudevnuma000", {{kCpu, "1"}});
  EXPECT_EQ(cpus_of(second).size(), 1U);

  Pod memory = slot_pod("memory", "cpudevnuma001", {{kCpu, "0"}, {kMemory, "4Gi"}});
  EXPECT_EQ(container(memory).mems, "1");
  EXPECT_EQ(cpus_of(memory), all_cpus() - cpus_of(cpus) - cpus_of(second)) << "the shared pool";
  EXPECT_FALSE(std::filesystem::exists(cdi_file(memory.claims[0], "cpu")));
  const std::string none = slot_refusal("none", "cpudevnuma001", {{kCpu, "0"}, {kMemory, "0"}});
  EXPECT_NE(none.find("is 0; it must be positive, or memory be asked for"), std::string::npos) << none;

  // The API server is away: what is prepared is answered from the books, and ends without it.
  ASSERT_NO_FATAL_FAILURE(again(kCpuOnly));
  node().api().stop();
  const auto prepared = node().kubelet().prepare(kDriverName, memory.claims);
  ASSERT_OK(prepared);
  ASSERT_OK(prepared->at(memory.claims[0].uid));
  EXPECT_EQ(prepared->at(memory.claims[0].uid)->device_names, std::vector<std::string>{"cpudevnuma001"});
  ASSERT_OK(node().end_pod_of(memory, kCpuOnly));
  EXPECT_FALSE(std::filesystem::exists(cdi_file(memory.claims[0])));
  EXPECT_NE(metrics().find("dra_memory_resource_claims_active 0\n"), std::string::npos);
}

TEST_F(CombinedMemory, FollowsItsPools) {
  ASSERT_NO_FATAL_FAILURE(up());
  slot_pod("app", "cpudevnuma001", {{kCpu, "1"}, {kPages, "96Mi"}});
  for (const char* count : {"nr_hugepages", "free_hugepages"}) {
    std::ofstream(folder_->path() / "host/sys/devices/system/node/node1/hugepages/hugepages-2048kB" / count)
        << "32\n";
  }
  EXPECT_TRUE(eventually(std::chrono::seconds(20), [&] {
    return capacity("cpudevnuma001", kPages) == "64Mi";
  })) << log();
  EXPECT_EQ(capacity("cpudevnuma000", kPages), "128Mi");
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] {
    return node().driver_log().find("hugepages-2Mi: claims hold 96Mi, NUMA node 1 has 64Mi for them") !=
           std::string::npos;
  })) << log();
  const std::string full = slot_refusal("other", "cpudevnuma001", {{kCpu, "1"}, {kPages, "2Mi"}});
  EXPECT_NE(full.find("2Mi requested, 0 of 64Mi left"), std::string::npos) << full;
}

// RULINGS 7, in both directions.
TEST_F(CombinedMemory, ClaimsOfTheOtherModeKeepTheirsAndEndBeforeNewOnesCome) {
  ASSERT_NO_FATAL_FAILURE(MemoryTest::up("{enabled: true}", kBoth));
  const PodInfo pod = Node::new_pod("old");
  const Result<ClaimName> old =
      node().make_memory_claim("old", pod, {{"memory-numa001", "1Gi"}}, 1, "cpudevnuma001");
  ASSERT_OK(old);
  Pod running = started(pod, {*old}, kBoth);
  ASSERT_NO_FATAL_FAILURE(change(kCombined));
  ASSERT_OK(node().kubelet().wait_registered(kMemoryDriver, std::chrono::seconds(10)));
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] { return slices_of(kMemoryDriver) == 0; })) << log();
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
    const auto [status, text] = readiness();
    return status == 503 &&
           text.find("memory is held by claims of another memory.mode: demo/old") != std::string::npos;
  })) << readiness().second;
  EXPECT_EQ(container(running).mems, "1");
  ASSERT_OK(node().runtime().remove(running.containers.back()));
  ASSERT_OK(node().add_container(running, "main"));
  EXPECT_EQ(container(running).mems, "1") << "hooks go on";
  const std::string full = slot_refusal("new", "cpudevnuma000", {{kCpu, "1"}, {kMemory, "1Gi"}});
  EXPECT_NE(full.find("1 claims hold memory of mode \"separate\", first demo/old"), std::string::npos)
      << full;
  const PodInfo late = Node::new_pod("late");
  const Result<ClaimName> odd = node().make_memory_claim("late", late, {{"memory-numa000", "1Gi"}});
  ASSERT_OK(odd);
  const std::string served = refusal(late, {*odd}, {kMemoryDriver});
  EXPECT_NE(served.find("devices of dra.memory are served no more"), std::string::npos) << served;
  ASSERT_OK(node().end_pod_of(running, {kMemoryDriver, kDriverName}));
  ASSERT_NO_FATAL_FAILURE(wait_for(kCpuOnly));

  Pod slot = slot_pod("slot", "cpudevnuma000", {{kCpu, "1"}, {kMemory, "1Gi"}});
  ASSERT_NO_FATAL_FAILURE(change("{enabled: true}"));
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
    return readiness().second.find("memory of mode") == std::string::npos &&
           readiness().second.find("another memory.mode: demo/of-slot") != std::string::npos;
  })) << readiness().second;
  const std::string cpus = slot_refusal("more", "cpudevnuma000", {{kCpu, "1"}});
  EXPECT_NE(cpus.find("1 claims hold memory of mode \"combined\""), std::string::npos) << cpus;
  ASSERT_OK(node().end_pod_of(slot, kCpuOnly));
  EXPECT_FALSE(std::filesystem::exists(cdi_file(slot.claims[0])));
  ASSERT_NO_FATAL_FAILURE(wait_for(kBoth));
  EXPECT_EQ(cpus_of(slot_pod("after", "cpudevnuma000", {{kCpu, "1"}})).size(), 1U);
}

}  // namespace
}  // namespace dracpu::sandbox
