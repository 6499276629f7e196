// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Numbers in test names are lines of the checklist in spec nri-wire section 7, letters its dumps in 2.7.

#include "nri/messages.h"

#include <gtest/gtest.h>

#include "nri/fake_runtime.h"
#include "nri/mux.h"
#include "nri/ttrpc.h"

namespace dracpu::nri {
namespace {

using testing::container_bytes;
using testing::field;
using testing::from_hex;
using testing::pod_bytes;
using testing::to_hex;

ContainerUpdate change(std::string id, CpuSet cpus) { return {ContainerId(std::move(id)), std::move(cpus)}; }

TEST(Messages, Check35DumpECreateReply) {
  const CreateAnswer answer{{2, 3}, {change("0123abcd", {0, 1, 4, 5, 6, 7})}, "0"};
  const Result<EncodedUpdates> reply = encode_create_reply(ContainerId("new"), answer, kMaxSendData);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->sent, 1U);
  EXPECT_EQ(to_hex(encode_message(1, encode_response(5, reply->payload))), to_hex(from_hex(R"(
      00 00 00 01 00 00 00 37 00 00 00 2d 00 00 00 05 02 00 12 2b 0a 0e 32 0c 12 0a 12 08 32 03 32 2d
      33 3a 01 30 12 19 0a 08 30 31 32 33 61 62 63 64 12 0d 0a 0b 12 09 32 07 30 2d 31 2c 34 2d 37)")));
}

TEST(Messages, AnEmptyAnswerIsAnEmptyMessage) {
  EXPECT_EQ(encode_create_reply(ContainerId("new"), {}, kMaxSendData)->payload, "");
  EXPECT_EQ(encode_updates({}, 0, kMaxSendData)->payload, "");
}

TEST(Messages, RefusesAnswersThatMustNotReachTheWire) {
  struct Case {
    const char* about;
    std::vector<ContainerUpdate> updates;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"no CPUs would mean unchanged", {change("a", {1}), change("b", {})}},
           {"no id", {change("", {1})}},
           {"one container twice", {change("a", {1}), change("b", {2}), change("a", {1})}},
           {"check 48: an id that is not UTF-8", {change("a\xff", {1})}},
           {"the container that is created", {change("new", {1})}},
       }) {
    SCOPED_TRACE(c.about);
    const Result<EncodedUpdates> reply =
        encode_create_reply(ContainerId("new"), {{2}, c.updates}, kMaxSendData);
    ASSERT_FALSE(reply.ok());
    EXPECT_EQ(reply.error().code, Errc::kInternal);
    EXPECT_EQ(encode_updates(c.updates, 0, kMaxSendData).ok(), c.updates[0].id.get() == "new");
  }
}

TEST(Messages, Check22KeepsTheFirstUpdatesThatFit) {
  std::vector<ContainerUpdate> updates;
  CpuSet every_other;
  for (std::uint32_t cpu = 0; cpu < 1024; cpu += 2) every_other.insert(CpuId(cpu));
  for (int i = 0; i < 3000; ++i) updates.push_back(change(fmt::format("{:064x}", i), every_other));
  const Result<EncodedUpdates> reply = encode_updates(updates, 0, kMaxSendData);
  ASSERT_TRUE(reply.ok());
  EXPECT_LT(reply->sent, updates.size());
  EXPECT_GT(reply->sent, 1500U);
  EXPECT_LE(response_size(reply->payload.size()), kMaxSendData);
  EXPECT_GT(reply->payload.size(), kMaxSendData - 4096);
  const Result<EncodedUpdates> rest = encode_updates(updates, reply->sent, kMaxSendData);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->sent, updates.size());
  const Result<EncodedUpdates> create = encode_create_reply(ContainerId("new"), {{1}, updates}, kMaxSendData);
  ASSERT_TRUE(create.ok());
  EXPECT_LE(response_size(create->payload.size()), kMaxSendData);
}

TEST(Messages, Check24RequestTimeout) {
  struct Case {
    const char* about;
    std::string payload;
    std::int64_t expected;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"absent", "", 2000},
                                   {"zero", from_hex("28 00"), 2000},
                                   {"negative", from_hex("28 ff ff ff ff ff ff ff ff ff 01"), 2000},
                                   {"half a second", from_hex("28 f4 03"), 500},
                                   {"absurd", from_hex("28 ff ff ff ff ff ff ff ff 7f"), 3600000}}) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(parse_configure(c.payload)->request_timeout.count(), c.expected);
  }
  EXPECT_EQ(parse_configure(field(6, "v0.12.2"))->nri_version, "v0.12.2");
  EXPECT_FALSE(parse_configure("\xff").ok());
}

TEST(Messages, ReadsWhatAPinningPluginNeeds) {
  const std::string env = field(8, "PATH=/bin") + field(8, "DRA_CPUSET_a=0-1") +
                          field(8, "DRA_CPUSET_a=2-3") + field(8, "XDRA_CPUSET_b=4");
  const std::string cpu = field(3, field(2, field(6, "0-3") + field(7, "0") + field(1, from_hex("08 02"))));
  const std::string container = field(1, "c1") + field(2, "pod1") +
                                field(5, field(1, "io.kubernetes.container.name") + field(2, "main")) + env +
                                field(11, cpu) + field(22, "image") + field(200, "later");
  const Result<ContainerInfo> got = parse_container(field(2, container) + field(3, "") +
                                                    field(1, pod_bytes("pod1", "uid1") + field(99, "x")));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->id.get(), "c1");
  EXPECT_EQ(got->sandbox.get(), "pod1");
  EXPECT_EQ(got->pod_uid.get(), "uid1");
  EXPECT_EQ(got->pod_namespace, "shop");
  EXPECT_EQ(got->pod_name, "web-0");
  EXPECT_EQ(got->name, "main") << "from the label";
  EXPECT_EQ(got->cpus, "0-3");
  EXPECT_EQ(got->memory.mems, "0");
  EXPECT_EQ(got->env, (std::vector<std::string>{"DRA_CPUSET_a=0-1", "DRA_CPUSET_a=2-3"}))
      << "check 38: duplicates are kept, in order";
}

TEST(Messages, ReadsWhatIsKnownAndAskedOfMemory) {
  const std::string env = field(8, "DRAMEMORY_a_NUMANodes=1") + field(8, "DRA_CPUSET_a=0-1") +
                          field(8, "XDRAMEMORY_b_NUMANodes=1");
  const auto resources = [](const std::string& mems, const std::string& limit) {
    return field(1, field(1, from_hex("08 80 20"))) + field(2, field(7, mems)) +
           field(3, field(1, "2MB") + from_hex(limit.c_str())) + field(3, field(1, "1GB"));
  };
  const std::string container =
      field(1, "c1") + field(2, "pod1") + env + field(11, field(3, resources("1", "10 80 40")));
  const Result<ContainerInfo> got = parse_update(field(1, pod_bytes("pod1", "uid1")) + field(2, container) +
                                                 field(3, resources("0-1", "10 05")));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->memory_env, (std::vector<std::string>{"DRAMEMORY_a_NUMANodes=1"}));
  EXPECT_EQ(got->env, (std::vector<std::string>{"DRA_CPUSET_a=0-1"}));
  EXPECT_EQ(got->memory,
            (MemorySettings{.mems = "1", .hugepage_limits = {{"2MB", 8192}, {"1GB", 0}}, .limit = 4096}));
  EXPECT_EQ(got->asked,
            (MemorySettings{.mems = "0-1", .hugepage_limits = {{"2MB", 5}, {"1GB", 0}}, .limit = 4096}));
}

TEST(Messages, AnUpdateOfMemoryAloneSaysNothingOfCpus) {
  const Result<EncodedUpdates> got =
      encode_updates({{ContainerId("c1"), {}, {.mems = "1", .hugepage_limits = {{"2MB", 5}}}}}, 0, 4096);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->payload,
            field(1, field(1, "c1") + field(2, field(1, field(2, field(7, "1")) +
                                                            field(3, field(1, "2MB") + from_hex("10 05"))))));
  EXPECT_FALSE(encode_updates({{ContainerId("c1"), {}}}, 0, 4096).ok());
}

TEST(Messages, Check32StateChange) {
  const std::string about = field(2, pod_bytes("pod1", "uid1")) + field(3, container_bytes("c1", "pod1"));
  EXPECT_TRUE(parse_state_change(from_hex("08 0b") + about)->removed);
  EXPECT_EQ(parse_state_change(from_hex("08 0b") + about)->container.id.get(), "c1");
  for (const char* other : {"08 01", "08 06", "08 0c", "08 63", "08 ff ff ff ff ff ff ff ff ff 01", ""}) {
    EXPECT_FALSE(parse_state_change(from_hex(other) + about)->removed) << other;
  }
}

TEST(Messages, Check25And26ChunksJoin) {
  SyncSet set;
  EXPECT_TRUE(*set.add(field(2, container_bytes("c1", "p1", "0-1")) + from_hex("18 01")));
  EXPECT_TRUE(*set.add(from_hex("18 01") + field(50, "unknown") + from_hex("98 06 05")));
  EXPECT_FALSE(*set.add(field(1, pod_bytes("p1", "u1")) + field(2, container_bytes("c2", "p2"))));
  EXPECT_FALSE(set.empty());
  const std::vector<ContainerInfo> all = set.take();
  EXPECT_TRUE(set.empty());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].pod_uid.get(), "u1") << "its pod came two chunks later";
  EXPECT_EQ(all[0].pod_namespace, "shop");
  EXPECT_EQ(all[0].cpus, "0-1");
  EXPECT_EQ(all[1].id.get(), "c2");
  EXPECT_EQ(all[1].pod_uid.get(), "") << "no such pod";
}

TEST(Messages, TheContainersLabelsSpeakForAPodThatIsNotListed) {
  const auto label = [](const std::string& key, const std::string& value) {
    return field(5, field(1, "io.kubernetes.pod." + key) + field(2, value));
  };
  const std::string labels = label("uid", "u9") + label("namespace", "team") + label("name", "web-9");
  SyncSet set;
  EXPECT_FALSE(*set.add(field(2, container_bytes("c1", "gone") + labels) +
                        field(2, container_bytes("c2", "p1") + labels) + field(1, pod_bytes("p1", "u1"))));
  const std::vector<ContainerInfo> all = set.take();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].pod_uid.get(), "u9");
  EXPECT_EQ(all[0].pod_namespace, "team");
  EXPECT_EQ(all[0].pod_name, "web-9");
  EXPECT_EQ(all[1].pod_uid.get(), "u1") << "the pod itself counts";
}

TEST(Messages, SynchronizeRefusesWhatIsNotOne) {
  for (const char* hex : {"ff", "0a", "0a 05 61", "12 02 0a", "12 ff ff ff ff 0f", "18", "0b", "0c", "00"}) {
    SCOPED_TRACE(hex);
    SyncSet set;
    EXPECT_FALSE(set.add(from_hex(hex)).ok());
  }
}

TEST(Messages, KnowsAllMethodsOfTheService) {
  EXPECT_EQ(find_method("CreateContainer"), Method::kCreateContainer);
  EXPECT_EQ(find_method("Shutdown"), Method::kEmptyReply);
  EXPECT_EQ(find_method("PostUpdatePodSandbox"), Method::kEmptyReply);
  EXPECT_FALSE(find_method("Foo").has_value());
  EXPECT_FALSE(find_method("").has_value());
  EXPECT_EQ(kEventMask & ~0x7ff, 0) << "bits that every runtime knows";
}

}  // namespace
}  // namespace dracpu::nri
