// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/status_page.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "agent/test_node.h"
#include "base/file.h"
#include "data/tree.h"

namespace dracpu::agent {
namespace {

using std::chrono::system_clock;

constexpr std::int64_t kNow = 1'796'000'000;

std::shared_ptr<const Machine> machine_of(const test::TreeSpec& spec) {
  topology::MemorySource tree = test::make_tree(spec);
  auto out = std::make_shared<Machine>();
  out->topology = topology::read_topology(tree).value();
  out->managed = out->topology.usable;
  return out;
}

StatusClaim claim(const std::string& name, CpuSet cpus, const std::string& pod, std::int64_t age) {
  StatusClaim c;
  c.uid = ClaimUid("00000000-0000-4000-8000-" + name);
  c.ns = "apps";
  c.name = name;
  c.cpus = std::move(cpus);
  if (!pod.empty()) {
    c.pod = "apps/" + pod;
    c.container = "main";
    c.is_running = true;
  }
  c.prepared_at = kNow - age;
  return c;
}

CpuSet range(std::uint32_t first, std::uint32_t last) {
  return CpuSet::parse(fmt::format("{}-{}", first, last)).value();
}

StatusFacts base(const std::string& node, CpuSet reserved) {
  StatusFacts f;
  f.node = node;
  f.driver = "dra.cpu";
  f.reserved = std::move(reserved);
  f.now = system_clock::from_time_t(kNow);
  f.up = std::chrono::hours(30);
  const auto since = std::chrono::steady_clock::now() - std::chrono::minutes(90);
  for (const char* name : {"guard", "nri", "kubelet", "slices"}) f.checks.push_back({name, true, "", since});
  return f;
}

// Two cores of a small node belong to a database, one to a claim that nobody uses yet.
StatusFacts small_node() {
  StatusFacts f = base("edge-7", CpuSet{0, 4});
  OwnerFacts o;
  o.machine = machine_of({.sockets = 1, .cores_per_node = 4, .cores_per_l3 = 4});
  o.claims = {claim("database", CpuSet{1, 2, 5, 6}, "postgres-0", 3 * 3600 + 125),
              claim("spare", CpuSet{3}, "", 20)};
  o.pool = CpuSet{7};
  o.shared_containers = 14;
  o.runtime = "containerd v2.1.4, NRI v0.12.3";
  f.owner = std::move(o);
  f.refusals = {{system_clock::from_time_t(kNow - 30), 3, "claim apps/huge",
                 "request \"cpus\" needs 6 CPUs of device \"cpudevnuma000\", 1 are free there (7)"}};
  return f;
}

StatusFacts large_node() {
  StatusFacts f = base("worker-31", range(0, 3) | range(128, 131));
  OwnerFacts o;
  o.machine = machine_of({.sockets = 2, .nodes_per_socket = 4, .cores_per_node = 16, .cores_per_l3 = 8});
  CpuSet held = f.reserved;
  const std::vector<std::pair<const char*, std::uint32_t>> jobs = {
      {"solver-0", 16}, {"solver-1", 16}, {"gateway", 4}, {"upf-0", 8},  {"upf-1", 8},
      {"cache", 2},     {"trading", 6},   {"vm-14", 12},  {"vm-15", 12}, {"batch", 10}};
  std::uint32_t core = 4;
  for (const auto& [name, cores] : jobs) {
    const CpuSet cpus = range(core, core + cores - 1) | range(core + 128, core + 128 + cores - 1);
    o.claims.push_back(claim(name, cpus, name, std::int64_t{86400} * cores));
    held |= cpus;
    core += cores;
  }
  o.pool = o.machine->topology.usable - held;
  o.shared_containers = 61;
  o.stale_containers = 2;
  o.runtime = "containerd v2.1.4, NRI v0.12.3";
  f.owner = std::move(o);
  f.advice = {{"nri-request-timeout", "the runtime gives a plugin 500 ms to answer"}};
  return f;
}

bool has(const std::string& page, std::string_view text) { return page.find(text) != std::string::npos; }

// The document parses as XML, which the declaration in front is not part of.
std::string xml_error(const std::string& page) {
  std::istringstream in(page.substr(page.find("<html")));
  boost::property_tree::ptree tree;
  try {
    boost::property_tree::read_xml(in, tree);
  } catch (const boost::property_tree::xml_parser_error& e) {
    return e.what();
  }
  return {};
}

TEST(StatusPage, TellsWhoOwnsACpu) {
  const StatusFacts f = small_node();
  const std::string page = status_html(f);
  EXPECT_EQ(xml_error(page), "");
  EXPECT_TRUE(
      has(page, "<td class=\"cpus\">1-2,5-6</td><td class=\"text\">apps/postgres-0</td><td>main</td>"));
  EXPECT_TRUE(has(page, "apps/database</td><td>3 h 2 min</td>"));
  EXPECT_TRUE(has(page, "<td class=\"text\">none yet</td>"));
  EXPECT_TRUE(has(page, "data-cpu=\"5\""));
  EXPECT_TRUE(has(page, "containerd v2.1.4, NRI v0.12.3"));
  EXPECT_TRUE(has(page, "1 are free there (7)"));

  const std::vector<std::pair<std::string_view, std::string_view>> table = {
      {"5", "CPU 5: claim apps/database, container &quot;main&quot; of pod apps/postgres-0."},
      {" 5 ", "CPU 5: claim apps/database"},
      {"3", "CPU 3: claim apps/spare, which no container has used yet."},
      {"0", "CPU 0: reserved for the system"},
      {"7", "CPU 7: in the shared pool, used by 14 containers without a claim."},
      {"8", "CPU 8: this machine has no such CPU."},
      {"-1", "Ask with the number of a CPU."},
      {"five", "Ask with the number of a CPU."},
      {"99999999999", "Ask with the number of a CPU."},
  };
  for (const auto& [asked, answer] : table) {
    const std::string answered = status_html(f, asked);
    EXPECT_TRUE(has(answered, answer)) << asked;
    EXPECT_EQ(xml_error(answered), "") << asked;
  }
  EXPECT_TRUE(has(status_html(f, "5"), " asked\" data-cpu=\"5\"")) << "it is marked in the picture";
}

TEST(StatusPage, NoTextFromOutsideIsMarkup) {
  const std::string evil = "<script>alert(1)</script>\"'&\x01\xff";
  StatusFacts f = small_node();
  f.node = f.driver = evil;
  f.owner->runtime = evil;
  for (StatusClaim& c : f.owner->claims) c.ns = c.name = c.pod = c.container = evil;
  f.refusals.front().who = f.refusals.front().what = evil;
  f.checks.front() = {evil, false, evil, {}};
  f.advice = {{evil, evil}};
  const std::string page = status_html(f, evil);
  EXPECT_FALSE(has(page, "<script>"));
  EXPECT_EQ(xml_error(page), "");
}

TEST(StatusPage, AStandbySaysSo) {
  StatusFacts f = base("edge-7", {});
  f.checks.front() = {"guard", false, "another instance owns this node", {}};
  const std::string page = status_html(f);
  EXPECT_EQ(xml_error(page), "");
  EXPECT_TRUE(has(page, "does not serve the node now"));
  EXPECT_TRUE(has(page, "another instance owns this node"));
  EXPECT_FALSE(has(page, "<svg"));
}

TEST(StatusPage, LostCpusAndManyClaimsAreShown) {
  StatusFacts f = large_node();
  EXPECT_EQ(xml_error(status_html(f)), "");
  EXPECT_TRUE(has(status_html(f), "2 containers still to be told of a change"));
  Machine machine = *f.owner->machine;
  machine.topology.offline = CpuSet{4};
  machine.topology.online -= CpuSet{4};
  machine.topology.usable -= CpuSet{4};
  f.owner->machine = std::make_shared<Machine>(machine);
  const std::string page = status_html(f, "4");
  EXPECT_TRUE(has(page, "<span class=\"bad\">4 offline</span>"));
  EXPECT_TRUE(has(page, "It is offline now."));
}

TEST(StatusBoard, KeepsTheLastRefusalsAndCountsEqualOnes) {
  const TestNode t;
  observe::HealthState health({"guard"});
  StatusBoard board(t.node, health);
  for (int i = 0; i < 30; ++i) board.note_refusal(fmt::format("claim a/{}", i), "why");
  board.note_refusal("claim a/20", "why");
  const StatusFacts f = board.facts();
  ASSERT_EQ(f.refusals.size(), 20U);
  EXPECT_EQ(f.refusals[0].who, "claim a/20");
  EXPECT_EQ(f.refusals[0].times, 2U);
  EXPECT_EQ(f.refusals[1].who, "claim a/29");
  EXPECT_FALSE(f.owner);
  board.set_source([] { return OwnerFacts{}; });
  EXPECT_TRUE(board.facts().owner);
  board.set_source({});
  EXPECT_FALSE(board.facts().owner);
}

// A real browser reads the page from a real listener. DRACPU_IMAGES names a folder for the screenshots.
class StatusPageInBrowser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "chromium is not installed";
    const char* images = std::getenv("DRACPU_IMAGES");
    folder_ = images == nullptr ? testing::TempDir() : std::string(images);
    std::filesystem::create_directories(folder_);
  }

  // What Chromium prints when it is given this page with these arguments.
  std::string browse(const StatusFacts& facts, const std::string& arguments, const std::string& query = "/",
                     bool has_script = true) {
    observe::HttpServer server({.bind_address = "127.0.0.1:0"});
    server.route("/", [&](const observe::HttpRequest& r) {
      ++loads_;
      StatusFacts now = facts;
      if (has_script && loads_ > 1) now.owner->shared_containers += 100;
      const std::string_view cpu = r.query_value("cpu");
      return observe::HttpResponse{
          200, status_html(now, cpu.empty() ? std::nullopt : std::optional<std::string_view>(cpu)),
          "text/html; charset=utf-8"};
    });
    if (has_script) server.route("/status.js", status_script);
    EXPECT_TRUE(server.start().ok());
    const std::string out = testing::TempDir() + "chromium.out";
    const std::string command = fmt::format(
        "timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars "
        "--user-data-dir={}profile {} "
        "'http://127.0.0.1:{}{}' >{} 2>{}.err",
        testing::TempDir(), arguments, server.port(), query, out, out);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    server.stop();
    return read_file(out).value();
  }

  std::filesystem::path folder_;
  std::atomic<int> loads_ = 0;
};

// Without its script, so that the picture is that of the first answer.
TEST_F(StatusPageInBrowser, ScreenshotsOfASmallAndALargeNode) {
  const std::vector<std::tuple<const char*, StatusFacts, const char*, const char*>> table = {
      {"status-8-cpus.png", small_node(), "1100,1180", "/?cpu=5"},
      {"status-256-cpus.png", large_node(), "1640,1830", "/"}};
  for (const auto& [name, facts, size, query] : table) {
    const std::filesystem::path image = folder_ / name;
    std::filesystem::remove(image);
    browse(facts, fmt::format("--window-size={} --screenshot='{}'", size, image.string()), query, false);
    ASSERT_TRUE(std::filesystem::exists(image)) << name;
    EXPECT_GT(std::filesystem::file_size(image), 30'000U) << name << " is nearly empty";
  }
}

TEST_F(StatusPageInBrowser, SaysAllWithoutItsScript) {
  const std::string dom = browse(large_node(), "--dump-dom", "/?cpu=5", false);
  EXPECT_TRUE(has(dom, "CPU 5: claim apps/solver-0, container"));
  EXPECT_TRUE(has(dom, "<td class=\"text\">apps/upf-1</td>"));
  EXPECT_EQ(loads_, 1);
}

TEST_F(StatusPageInBrowser, BringsInChangesByItself) {
  const std::string dom = browse(small_node(), "--virtual-time-budget=7000 --dump-dom");
  EXPECT_TRUE(has(dom, "<span id=\"live\">live</span>")) << dom.substr(0, 2000);
  EXPECT_TRUE(has(dom, "CPUs 7 for 114 containers")) << "the second answer is shown";
  EXPECT_GT(loads_, 1);
}

}  // namespace
}  // namespace dracpu::agent
