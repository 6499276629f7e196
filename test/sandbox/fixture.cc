// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "fixture.h"

#include <unistd.h>

#include <cstdlib>

#ifndef DRACPU_BINARY
#define DRACPU_BINARY ""
#endif

namespace dracpu::sandbox {
namespace {

std::filesystem::path driver_binary() {
  const char* given = std::getenv("DRACPU_BINARY");
  return given != nullptr && *given != '\0' ? given : DRACPU_BINARY;
}

}  // namespace

void SandboxTest::bring_up(MachineShape shape, NodeOptions options) {
  if (options.driver.empty()) options.driver = driver_binary();
  if (::access(options.driver.c_str(), X_OK) != 0) {
    if (std::getenv("DRACPU_SKIP_WITHOUT_BINARY") != nullptr) GTEST_SKIP() << "no driver binary";
    FAIL() << "no driver binary at \"" << options.driver.string() << "\"; build dracpu or set DRACPU_BINARY";
  }
  shape_ = shape;
  Result<Folder> folder = Folder::make("dracpu-test-");
  ASSERT_TRUE(folder.ok()) << folder.error().text;
  folder_.emplace(*std::move(folder));
  options.host_root = folder_->path() / "host";
  const Status machine = write_machine(options.host_root, shape);
  ASSERT_TRUE(machine.ok()) << machine.error().text;
  Result<std::unique_ptr<Node>> node = Node::create(folder_->path(), std::move(options));
  ASSERT_TRUE(node.ok()) << node.error().text;
  node_ = *std::move(node);
}

void SandboxTest::start_and_wait() {
  ASSERT_OK(node().start_driver());
  ASSERT_OK(node().wait_ready());
}

ClaimName SandboxTest::claim(const std::string& name, std::size_t cpus) {
  Result<ClaimName> made = node().make_claim(name, cpus);
  EXPECT_OK(made);
  return made.ok() ? *made : ClaimName{};
}

Pod SandboxTest::pod(const std::string& name, const std::vector<ClaimName>& claims) {
  Result<Pod> started = node().start_pod(name, claims);
  EXPECT_OK(started);
  return started.ok() ? *started : Pod{};
}

CpuSet SandboxTest::cpus_of(const Pod& p) {
  const Result<CpuSet> cpus = node().pod_cpus(p);
  EXPECT_OK(cpus);
  return cpus.ok() ? *cpus : CpuSet{};
}

CpuSet SandboxTest::cpus_of(const ClaimName& c) {
  const Result<CpuSet> cpus = node().claim_cpus(c);
  EXPECT_OK(cpus);
  return cpus.ok() ? *cpus : CpuSet{};
}

CpuSet SandboxTest::all_cpus() const {
  CpuSet out;
  for (std::uint32_t cpu = 0; cpu < shape_.cpus(); ++cpu) out.insert(CpuId(cpu));
  return out;
}

std::vector<SeenRequest> SandboxTest::writes(std::size_t since) const {
  std::vector<SeenRequest> out;
  const std::vector<SeenRequest> all = node_->api().requests();
  for (std::size_t i = since; i < all.size(); ++i) {
    if (all[i].method != "GET" && all[i].target.find("resourceslices") != std::string::npos)
      out.push_back(all[i]);
  }
  return out;
}

}  // namespace dracpu::sandbox
