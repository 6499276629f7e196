// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What release 0.3.0 of the Go driver leaves on a node, and what becomes of it under this one.

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "fixture.h"

namespace dracpu::sandbox {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

// {0} UID, {1} CPUs.
constexpr char kClaimFile[] =
    R"({{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{{"name":"claim-{0}",)"
    R"("containerEdits":{{"env":["DRA_CPUSET_{0}={1}"]}}}}],"containerEdits":{{}}}})";
// {0} UID, {1} namespace, {2} name.
constexpr char kMetadata[] =
    R"({{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1beta1","metadata":{{"name":"{2}",)"
    R"("namespace":"{1}","uid":"{0}","generation":1}},"requests":[{{"name":"cpus","devices":[]}}]}})"
    "\n";
// {0} UID, {1} the metadata's path, {2} name.
constexpr char kMetadataFile[] = R"({{
  "cdiVersion": "0.5.0",
  "kind": "dra.cpu/metadata",
  "devices": [
    {{
      "name": "{0}_cpus",
      "containerEdits": {{
        "mounts": [
          {{
            "hostPath": "{1}",
            "containerPath": "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/{2}/cpus/dra.cpu-metadata.json",
            "options": ["ro", "bind"]
          }}
        ]
      }}
    }}
  ],
  "containerEdits": {{}}
}}
)";

class OlderRelease : public SandboxTest {
 protected:
  fs::path cdi_dir() { return node().folder() / "cdi"; }
  fs::path plugin_dir() { return node().folder() / "kubelet/plugins/dra.cpu"; }
  fs::path metadata_of(const ClaimName& c) {
    return plugin_dir() / "dra-device-metadata" / (c.ns + "_" + c.name);
  }

  // Nothing of ours stays, no state and no lock; containers live on.
  void forget_ours() {
    node().kill_driver();
    fs::remove_all(cdi_dir());
    fs::remove_all(plugin_dir());
    fs::remove_all(node().folder() / "kubelet/plugins/dracpu");
  }

  // Written from that release's layout: a CDI file for the claim, one for the metadata, and the metadata.
  void leave(const ClaimName& c, const CpuSet& cpus) {
    const fs::path metadata = metadata_of(c) / "cpus/metadata.json";
    fs::create_directories(cdi_dir());
    fs::create_directories(metadata.parent_path());
    ASSERT_OK(write_text(cdi_dir() / fmt::format("dra.k8s.io-cpu_claim-{}.json", c.uid),
                         fmt::format(kClaimFile, c.uid, cpus.to_string())));
    ASSERT_OK(write_text(metadata, fmt::format(kMetadata, c.uid, c.ns, c.name)));
    ASSERT_OK(write_text(cdi_dir() / fmt::format("dra.cpu_metadata_{}_cpus.json", c.uid),
                         fmt::format(kMetadataFile, c.uid, metadata.string(), c.name)));
  }

  bool has_files(const ClaimName& c) {
    for (const auto& entry : fs::directory_iterator(cdi_dir())) {
      if (entry.path().string().find(c.uid) != std::string::npos) return true;
    }
    return fs::exists(metadata_of(c));
  }
};

TEST_F(OlderRelease, ItsClaimsAreAdoptedAndItsFilesGoWithThem) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const Pod shared = pod("web");
  const ClaimName running = claim("running", 2);
  Pod owner = pod("owner", {running});
  const ClaimName waiting = claim("waiting", 2);
  ASSERT_OK(node().kubelet().prepare(kDriverName, {waiting}));
  const CpuSet cpus = cpus_of(running);
  const CpuSet cpus_waiting = cpus_of(waiting);
  forget_ours();
  ASSERT_NO_FATAL_FAILURE(leave(running, cpus));
  ASSERT_NO_FATAL_FAILURE(leave(waiting, cpus_waiting));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());

  EXPECT_EQ(cpus_of(owner), cpus);
  EXPECT_EQ(cpus_of(shared), all_cpus() - cpus - cpus_waiting);
  const ClaimName next = claim("next", 2);
  EXPECT_FALSE(cpus_of(pod("next", {next})).intersects(cpus | cpus_waiting));
  // The kubelet names the devices of the old answer: the runtime needs their files.
  ASSERT_EQ(owner.devices.size(), 2U);
  ASSERT_OK(node().runtime().remove(owner.containers.back()));
  ASSERT_OK(node().add_container(owner));
  EXPECT_EQ(cpus_of(owner), cpus);
  const Pod late = pod("waiting", {waiting});
  EXPECT_EQ(cpus_of(late), cpus_waiting);

  ASSERT_OK(node().end_pod(owner));
  ASSERT_OK(node().end_pod(late));
  EXPECT_FALSE(has_files(running));
  EXPECT_FALSE(has_files(waiting));
}

// 0.3.0 forgets a claim without a container when it restarts; the file stays, and holds CPUs of nobody.
TEST_F(OlderRelease, WhatItForgotIsFoundByTheNameInItsMetadata) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const Pod shared = pod("web");
  const ClaimName forgotten{"default", "forgotten", "0f0f0f0f-0000-4000-8000-000000000030"};
  forget_ours();
  ASSERT_NO_FATAL_FAILURE(leave(forgotten, CpuSet::parse("0-1").value()));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_TRUE(eventually(seconds(10), [&] { return !has_files(forgotten) && cpus_of(shared) == all_cpus(); }))
      << log();
}

}  // namespace
}  // namespace dracpu::sandbox
