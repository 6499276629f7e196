// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Memory beside the CPUs: who gets it, who is refused, what a restart keeps, and that without it nothing of
// it is there.

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/regex.hpp>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/unique_fd.h"
#include "memory_fixture.h"
#include "runtime_parts.h"

namespace dracpu::sandbox {
namespace {

using ::std::filesystem::path;

std::set<std::string> names_in(const path& folder) {
  std::set<std::string> out;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ec))
    out.insert(entry.path().filename().string());
  return out;
}

TEST_F(MemoryDriver, PublishesAPoolOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(up("{enabled: true, reserved: \"0:memory=1Gi,hugepages-2Mi=64Mi\"}"));
  std::map<std::string, std::string> sizes;
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
    for (const boost::json::object& slice : node().slices()) {
      const boost::json::object& spec = slice.at("spec").as_object();
      if (spec.at("driver").as_string() != kMemoryDriver) continue;
      for (const boost::json::value& d : spec.at("devices").as_array())
        sizes[std::string(d.at("name").as_string())] =
            std::string(d.at("capacity").at("size").at("value").as_string());
    }
    return sizes.size() == 4;
  })) << log();
  EXPECT_EQ(sizes["memory-numa000"], fmt::format("{}Mi", 16384 - 128 - 1024));
  EXPECT_EQ(sizes["memory-numa001"], fmt::format("{}Mi", 16384 - 128));
  EXPECT_EQ(sizes["hugepages-2mi-numa000"], "64Mi");
  EXPECT_EQ(sizes["hugepages-2mi-numa001"], "128Mi");
}

TEST_F(MemoryDriver, PinsAContainerToTheNodeOfItsClaim) {
  ASSERT_NO_FATAL_FAILURE(up());
  const PodInfo pod = Node::new_pod("app");
  const ClaimName claim = memory_claim(
      "both", pod, {{"memory-numa001", "512Mi"}, {"hugepages-2mi-numa001", "64Mi"}}, 2, "cpudevnuma001");
  Pod running = started(pod, {claim}, kBoth);
  EXPECT_EQ(running.devices.size(), 5U) << "CPU, memory, and the metadata of three requests";
  const ContainerView view = container(running);
  EXPECT_EQ(view.mems, "1");
  EXPECT_EQ(view.hugepage_limits, (std::map<std::string, std::uint64_t>{{"2MB", 64 * kMiB}}));
  EXPECT_EQ(cpus_of(running).size(), 2U) << "in the same answer";
  EXPECT_TRUE(std::count(view.env.begin(), view.env.end(),
                         fmt::format("DRAMEMORY_{}_memory=numanode:1,size:512Mi", claim.uid)))
      << fmt::format("{}", fmt::join(view.env, " "));
  const std::string shown = metrics();
  EXPECT_NE(shown.find("dra_memory_allocated_bytes{numa_node=\"1\",resource=\"hugepages-2Mi\"} 67108864\n"),
            std::string::npos)
      << shown.substr(shown.find("dra_memory"));

  const auto page = node().probe("/", Node::kStatusPage);
  ASSERT_OK(page);
  EXPECT_NE(page->second.find("<td>hugepages-2Mi</td><td>1</td><td>128Mi</td><td>64Mi</td><td>64Mi</td>"),
            std::string::npos)
      << page->second.substr(std::min(page->second.size(), page->second.find("<h2>Memory")));
  EXPECT_NE(page->second.find("demo/both: 64Mi"), std::string::npos);

  // A second container with the same claim is refused, the first one may come again.
  const Result<std::string> second = node().add_container(running, "second");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().text.find("already belongs to"), std::string::npos) << second.error().text;
  ASSERT_OK(node().runtime().remove(running.containers.back()));
  ASSERT_OK(node().add_container(running, "main"));

  // What it got stands in a file of each request, until it is given back.
  const path metadata = node().folder() / "kubelet/plugins/dra.memory/dra-device-metadata" /
                        (claim.ns + "_" + claim.name) / "memory-1/metadata.json";
  const Result<std::string> told = read_file(metadata);
  ASSERT_OK(told);
  EXPECT_NE(told->find(R"("dra.memory/allocatedBytes":{"int":67108864})"), std::string::npos) << *told;
  EXPECT_NE(told->find(R"("resource.kubernetes.io/pageSize":{"string":"2Mi"})"), std::string::npos) << *told;
  ASSERT_OK(node().end_pod_of(running, {kMemoryDriver, kDriverName}));
  EXPECT_FALSE(std::filesystem::exists(cdi_file(claim)));
  EXPECT_FALSE(std::filesystem::exists(metadata));
  EXPECT_NE(metrics().find("dra_memory_resource_claims_active 0"), std::string::npos);
}

TEST_F(MemoryDriver, IsPreparedInEitherOrderAndAgain) {
  ASSERT_NO_FATAL_FAILURE(up());
  const PodInfo pod = Node::new_pod("app");
  const ClaimName claim = memory_claim("both", pod, {{"memory-numa000", "1Gi"}}, 1);
  for (const std::vector<std::string>& order : {kMemoryOnly, kBoth, kMemoryOnly}) {
    for (const std::string& driver : order) {
      const auto got = node().kubelet().prepare(driver, {claim});
      ASSERT_OK(got);
      ASSERT_OK(got->at(claim.uid));
      EXPECT_EQ(got->at(claim.uid)->device_names,
                (std::vector<std::string>{driver == kMemoryDriver ? "memory-numa000" : "cpudevnuma000"}));
    }
  }
  const ClaimName cpus = this->claim("cpus", 1);
  const auto none = node().kubelet().prepare(kMemoryDriver, {cpus});
  ASSERT_OK(none);
  ASSERT_OK(none->at(cpus.uid));
  EXPECT_TRUE(none->at(cpus.uid)->device_names.empty());
  EXPECT_FALSE(std::filesystem::exists(cdi_file(cpus)));
  const auto ended = node().kubelet().unprepare(kMemoryDriver, {cpus});
  ASSERT_OK(ended);
  EXPECT_OK(ended->at(cpus.uid));
}

TEST_F(MemoryDriver, RefusesWithNumbers) {
  ASSERT_NO_FATAL_FAILURE(up());
  const PodInfo pod = Node::new_pod("app");
  const ClaimName most = memory_claim("most", pod, {{"memory-numa000", "15Gi"}});
  started(pod, {most});
  const PodInfo other = Node::new_pod("other");
  const std::string full = refusal(other, {memory_claim("more", other, {{"memory-numa000", "2Gi"}})});
  EXPECT_NE(full.find("device \"memory-numa000\": 2Gi requested, 896Mi of 16256Mi left"), std::string::npos)
      << full;
  const std::string unknown = refusal(other, {memory_claim("gone", other, {{"memory-numa007", "2Gi"}})});
  EXPECT_NE(unknown.find("is not a memory device of this node"), std::string::npos) << unknown;
  const std::string odd = refusal(other, {memory_claim("odd", other, {{"hugepages-2mi-numa000", "3Mi"}})});
  EXPECT_NE(odd.find("not a multiple of the page size 2Mi"), std::string::npos) << odd;
  // The kernel gave the pages to somebody else.
  std::ofstream(folder_->path() /
                "host/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages")
      << "10\n";
  const std::string busy = refusal(other, {memory_claim("busy", other, {{"hugepages-2mi-numa000", "64Mi"}})});
  EXPECT_NE(busy.find("NUMA node 0 has 10 free pages of 2Mi, 32 needed"), std::string::npos) << busy;
  // A pod that is not the claim's own, and one that only says so.
  const PodInfo thief = Node::new_pod("thief");
  const std::string stolen = refusal(thief, {most});
  EXPECT_NE(stolen.find("is not prepared for this pod"), std::string::npos) << stolen;
  const Result<Pod> forged = node().start_pod("forged", {}, {"DRAMEMORY_abc_NUMANodes=0"});
  ASSERT_FALSE(forged.ok());
  EXPECT_NE(forged.error().text.find("claim abc is not prepared for this pod"), std::string::npos)
      << forged.error().text;
  EXPECT_NE(metrics().find("dra_memory_container_rejections_total{reason=\"unprepared\"} 2"),
            std::string::npos);
}

TEST_F(MemoryDriver, LosesNothingInARestart) {
  ASSERT_NO_FATAL_FAILURE(up());
  const PodInfo pod = Node::new_pod("app");
  const ClaimName claim = memory_claim("c", pod, {{"hugepages-2mi-numa001", "96Mi"}}, 1, "cpudevnuma001");
  Pod running = started(pod, {claim}, kBoth);
  const PodInfo later = Node::new_pod("later");
  const ClaimName waiting = memory_claim("waiting", later, {{"memory-numa000", "15Gi"}});
  ASSERT_OK(node().kubelet().prepare(kMemoryDriver, {waiting}));
  const Result<std::string> file = read_file(cdi_file(claim));
  ASSERT_OK(file);
  for (int i = 0; i < 2; ++i) {
    if (i == 1) std::filesystem::remove(cdi_file(claim));
    ASSERT_NO_FATAL_FAILURE(again());
    const Result<std::string> now = read_file(cdi_file(claim));
    ASSERT_OK(now);
    EXPECT_EQ(*now, *file);
    const PodInfo other = Node::new_pod(fmt::format("other-{}", i));
    const std::string full =
        refusal(other, {memory_claim(other.name, other, {{"hugepages-2mi-numa001", "64Mi"}})});
    EXPECT_NE(full.find("64Mi requested, 32Mi of 128Mi left"), std::string::npos) << full;
    const Result<std::string> second = node().add_container(running, "second");
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().text.find("already belongs to"), std::string::npos) << second.error().text;
    EXPECT_EQ(container(running).updates, 0U) << "nothing to put right";
  }
  EXPECT_EQ(container(started(later, {waiting})).mems, "0");
}

TEST_F(MemoryDriver, AdoptsWhatTheStandaloneDriverLeft) {
  NodeOptions options;
  options.memory = "{enabled: true}";
  ASSERT_NO_FATAL_FAILURE(bring_up(two_nodes(), std::move(options)));
  if (IsSkipped()) return;
  const PodInfo pod = Node::new_pod("old");
  const std::string env =
      "\"DRAMEMORY_UID_NUMANodes=1\",\"DRAMEMORY_UID_hugepages_2Mi=numanode:1,size:96Mi\"";
  const auto device = [&](const std::string& uid) {
    return boost::regex_replace(fmt::format(R"({{"name":"claim-UID","containerEdits":{{"env":[{}]}}}})", env),
                                boost::regex("UID"), uid);
  };
  std::ofstream(cdi() / "dra.memory.json")
      << R"({"cdiVersion":"0.8.0","kind":"dra.k8s.io/memory","devices":[)" << device("aa-1") << ","
      << device("bb-2") << "]}";
  ASSERT_OK(node().runtime().create({pod, "main", {}, {"dra.k8s.io/memory=claim-aa-1"}}));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  const std::set<std::string> files = names_in(cdi());
  EXPECT_FALSE(files.contains("dra.memory.json"));
  EXPECT_TRUE(files.contains("dra.k8s.io-memory_claim-aa-1.json"));
  EXPECT_TRUE(files.contains("dra.k8s.io-memory_claim-bb-2.json"));
  // The container has an owner and is put on its node; the amounts count.
  EXPECT_EQ(node().runtime().containers().at(0).mems, "1");
  const auto ended = node().kubelet().unprepare(kMemoryDriver, {{"demo", "old", "bb-2"}});
  ASSERT_OK(ended);
  EXPECT_OK(ended->at("bb-2"));
  const PodInfo other = Node::new_pod("other");
  const std::string full = refusal(other, {memory_claim("x", other, {{"hugepages-2mi-numa001", "64Mi"}})});
  EXPECT_NE(full.find("64Mi requested, 32Mi of 128Mi left"), std::string::npos) << full;
}

TEST_F(MemoryDriver, WaitsForAnotherDriverOfTheName) {
  NodeOptions options;
  options.memory = "{enabled: true}";
  ASSERT_NO_FATAL_FAILURE(bring_up(two_nodes(), std::move(options)));
  if (IsSkipped()) return;
  const path socket = node().folder() / "kubelet/plugins/dra.memory/dra.sock";
  Result<UniqueFd> other = listen_on(socket);
  ASSERT_OK(other);
  ASSERT_OK(node().start_driver());
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
    return node().driver_log().find("driver name dra.memory is already served on this node") !=
           std::string::npos;
  })) << log();
  *other = UniqueFd();  // its file stays behind
  ASSERT_OK(node().wait_ready());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
}

TEST_F(MemoryDriver, FollowsItsPools) {
  ASSERT_NO_FATAL_FAILURE(up("{enabled: true, rescanSeconds: 10}"));
  const PodInfo pod = Node::new_pod("app");
  started(pod, {memory_claim("c", pod, {{"hugepages-2mi-numa001", "96Mi"}})});
  for (const char* count : {"nr_hugepages", "free_hugepages"}) {
    std::ofstream(folder_->path() / "host/sys/devices/system/node/node1/hugepages/hugepages-2048kB" / count)
        << "32\n";
  }
  EXPECT_TRUE(eventually(std::chrono::seconds(15), [&] {
    return metrics().find("dra_memory_rescans_total{result=\"changed\"} 1") != std::string::npos;
  })) << log();
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] {
    const std::vector<boost::json::object> slices = node().slices();
    return std::any_of(slices.begin(), slices.end(), [](const boost::json::object& s) {
      const std::string text = boost::json::serialize(s);
      return text.find("\"hugepages-2mi-numa001\"") != std::string::npos &&
             text.find("\"64Mi\"") != std::string::npos;
    });
  })) << log();
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] {
    return node().driver_log().find("claims hold 96Mi, NUMA node 1 has 64Mi for them") != std::string::npos;
  })) << log();
  const PodInfo other = Node::new_pod("other");
  const std::string full = refusal(other, {memory_claim("x", other, {{"hugepages-2mi-numa001", "2Mi"}})});
  EXPECT_NE(full.find("2Mi requested, 0 of 64Mi left"), std::string::npos) << full;
}

TEST_F(MemoryDriver, RefusesToStartWithAReservationThatCannotBe) {
  NodeOptions options;
  options.memory = "{enabled: true, reserved: \"1:memory=64Gi\"}";
  ASSERT_NO_FATAL_FAILURE(bring_up(two_nodes(), std::move(options)));
  if (IsSkipped()) return;
  ASSERT_OK(node().start_driver());
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] { return !node().driver_runs(); }));
  EXPECT_NE(log().find("memory.reserved: NUMA node 1: memory=64Gi exceeds the 16256Mi present"),
            std::string::npos)
      << log();
}

// What a node shows of itself: files and sockets, slices, metrics, messages of the log with the names of
// their values.
struct Surface {
  std::set<std::string> files;
  std::vector<std::string> slices;
  std::set<std::string> metrics;
  std::set<std::string> log;
  std::string readiness;
};

// "I1203 05:08:52.075897 4584 run.cc:132] "Machine read" node="n1"" → "Machine read" node
std::string message_of(const std::string& line) {
  static const boost::regex kHead(R"(^[IWE]\d{4} \S+ +\d+ \S+\] ("[^"]*"))");
  static const boost::regex kKey(R"( (\w+)=)");
  boost::smatch head;
  if (!boost::regex_search(line, head, kHead)) return {};
  std::string out = head[1].str();
  const std::string rest = head.suffix().str();
  for (boost::sregex_iterator it(rest.begin(), rest.end(), kKey), end; it != end; ++it)
    out += " " + (*it)[1].str();
  return out;
}

class MemoryOff : public MemoryDriver {
 protected:
  Surface surface() {
    Surface out;
    std::error_code ec;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(node().folder() / "kubelet", ec)) {
      // Half-written ones come and go.
      if (entry.path().extension() != ".new")
        out.files.insert(entry.path().lexically_relative(node().folder()).string());
    }
    for (const std::string& name : names_in(cdi())) out.files.insert("cdi/" + name);
    for (const boost::json::object& slice : node().slices())
      out.slices.push_back(boost::json::serialize(slice.at("spec")));
    std::istringstream lines(metrics());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# TYPE ")) out.metrics.insert(line);
    }
    std::istringstream log_lines(node().driver_log(1000));
    for (std::string line; std::getline(log_lines, line);) {
      if (std::string message = message_of(line); !message.empty()) out.log.insert(std::move(message));
    }
    const auto ready = node().probe("/readyz?verbose", Node::kControl);
    out.readiness = ready.ok() ? ready->second : ready.error().text;
    return out;
  }
};

TEST_F(MemoryOff, ShowsNothingOfIt) {
  const auto run = [&](const std::string& section, const char* binary, Surface& out) {
    NodeOptions options;
    options.memory = section;
    if (binary != nullptr) options.driver = binary;
    ASSERT_NO_FATAL_FAILURE(ready(two_nodes(), std::move(options)));
    // A variable of memory is a variable like any other.
    ASSERT_OK(node().start_pod("web", {}, {"DRAMEMORY_abc_NUMANodes=7"}));
    const Pod p = pod("app", {claim("c", 1)});
    EXPECT_EQ(container(p).mems, "");
    EXPECT_TRUE(container(p).hugepage_limits.empty());
    ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
      const auto ready = node().probe("/readyz", Node::kControl);
      return ready.ok() && ready->first == 200;
    }));
    out = surface();
    for (std::string& text : out.slices)
      text = boost::regex_replace(text, boost::regex(p.claims[0].uid), "UID");
    std::set<std::string> files;
    for (const std::string& f : out.files)
      files.insert(boost::regex_replace(f, boost::regex(p.claims[0].uid), "UID"));
    out.files = std::move(files);
    node_.reset();
  };
  Surface absent;
  ASSERT_NO_FATAL_FAILURE(run("", nullptr, absent));
  Surface off;
  ASSERT_NO_FATAL_FAILURE(run("{enabled: false}", nullptr, off));
  std::vector<const Surface*> all{&absent, &off};
  // A build from before there was memory: what it shows is what there is to show.
  Surface before;
  if (const char* binary = std::getenv("DRACPU_BASELINE_BINARY"); binary != nullptr) {
    ASSERT_NO_FATAL_FAILURE(run("", binary, before));
    all.push_back(&before);
  }
  for (const Surface* s : all) {
    EXPECT_EQ(s->slices.size(), 1U);
    EXPECT_GT(s->log.size(), 10U);
    for (const std::string& text : s->files) EXPECT_EQ(text.find("memory"), std::string::npos) << text;
    for (const std::string& text : s->metrics) EXPECT_EQ(text.find("dra_memory"), std::string::npos) << text;
    for (const std::string& text : s->log) EXPECT_EQ(text.find("emory"), std::string::npos) << text;
    EXPECT_EQ(s->readiness, absent.readiness);
    EXPECT_EQ(s->files, absent.files);
    EXPECT_EQ(s->slices, absent.slices);
    EXPECT_EQ(s->metrics, absent.metrics);
    EXPECT_EQ(s->log, absent.log);
  }
}

TEST_F(MemoryOff, KeepsItsClaimsInTheStateFileUntilItIsOnAgain) {
  ASSERT_NO_FATAL_FAILURE(up());
  const PodInfo pod = Node::new_pod("app");
  const ClaimName claim = memory_claim("c", pod, {{"hugepages-2mi-numa001", "96Mi"}});
  started(pod, {claim});
  ASSERT_OK(node().stop_driver());
  ASSERT_OK(node().set_memory("{enabled: false}"));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  this->pod("other", {this->claim("cpus", 1)});  // the state file is written
  EXPECT_TRUE(std::filesystem::exists(cdi_file(claim)));
  ASSERT_OK(node().stop_driver());
  ASSERT_OK(node().set_memory("{enabled: true}"));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  EXPECT_NE(metrics().find("dra_memory_resource_claims_active 1"), std::string::npos) << metrics();
}

}  // namespace
}  // namespace dracpu::sandbox
