// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/spec.h"

#include <gtest/gtest.h>

#include <string>

#include "cdi/directory.h"

namespace dracpu::cdi {
namespace {

const ClaimUid kUid("ad4af911-5bcd-47c5-a554-f35cea869472");

std::string file_with(std::string_view devices) {
  return fmt::format(
      R"({{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{}],"containerEdits":{{}}}})", devices);
}
std::string device_with(std::string_view uid, std::string_view env) {
  return fmt::format(R"({{"name":"claim-{}","containerEdits":{{"env":[{}]}}}})", uid, env);
}

TEST(ClaimSpec, IsReleaseThreesText) {
  EXPECT_EQ(claim_spec(kUid, CpuSet{1, 2, 7}),
            R"({"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[)"
            R"({"name":"claim-ad4af911-5bcd-47c5-a554-f35cea869472","containerEdits":{"env":)"
            R"(["DRA_CPUSET_ad4af911-5bcd-47c5-a554-f35cea869472=1-2,7"]}}],"containerEdits":{}})");
  EXPECT_EQ(device_id(kUid), "dra.k8s.io/cpu=claim-ad4af911-5bcd-47c5-a554-f35cea869472");
  EXPECT_EQ(env_name(kUid), "DRA_CPUSET_ad4af911-5bcd-47c5-a554-f35cea869472");
}

TEST(ParseSpec, ReadsItsOwnText) {
  const auto got = parse_spec(claim_spec(kUid, CpuSet{0, 2, 3, 511}));
  ASSERT_TRUE(got.ok()) << got.error().text;
  ASSERT_EQ(got->size(), 1U);
  EXPECT_EQ(got->front().uid, kUid);
  ASSERT_TRUE(got->front().cpus.ok());
  EXPECT_EQ(*got->front().cpus, (CpuSet{0, 2, 3, 511}));
}

TEST(ParseSpec, AcceptsWhatItNeedNotKnow) {
  struct Case {
    const char* about;
    std::string text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"spread over lines", "{\n \"kind\" : \"dra.k8s.io/cpu\",\n \"devices\": [" +
                                     device_with("a", R"("DRA_CPUSET_a=1-2")") + "]\n}\n"},
           {"another version of the format", R"({"cdiVersion":"1.0.0","kind":"dra.k8s.io/cpu","devices":[)" +
                                                 device_with("a", R"("DRA_CPUSET_a=1-2")") + "]}"},
           {"further variables, also of other claims",
            file_with(device_with("a", R"("X=1","DRA_CPUSET_b=7","DRA_CPUSET_a=1-2","DRA_CPUSET_ab=9")"))},
           {"further members", file_with(R"({"name":"claim-a","annotations":{"x":"y"},"containerEdits":)"
                                         R"({"mounts":[],"env":["DRA_CPUSET_a=1-2"]}})")},
       }) {
    SCOPED_TRACE(c.about);
    const auto got = parse_spec(c.text);
    ASSERT_TRUE(got.ok()) << got.error().text;
    ASSERT_EQ(got->size(), 1U);
    ASSERT_TRUE(got->front().cpus.ok()) << got->front().cpus.error().text;
    EXPECT_EQ(*got->front().cpus, (CpuSet{1, 2}));
  }
}

TEST(ParseSpec, ReportsADeviceWithoutAGoodVariableByItself) {
  struct Case {
    const char* about;
    std::string device;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"no edits", R"({"name":"claim-a"})", "occurs 0 times"},
           {"no list", R"({"name":"claim-a","containerEdits":{"env":"DRA_CPUSET_a=1"}})", "occurs 0 times"},
           {"another claim's variable only", device_with("a", R"("DRA_CPUSET_b=1")"), "occurs 0 times"},
           {"not a text", device_with("a", "1"), "occurs 0 times"},
           {"twice", device_with("a", R"("DRA_CPUSET_a=1","DRA_CPUSET_a=1")"), "occurs 2 times"},
           {"no CPUs", device_with("a", R"("DRA_CPUSET_a=")"), "is empty"},
           {"no CPU list", device_with("a", R"("DRA_CPUSET_a=x")"), "DRA_CPUSET_a: "},
           {"beyond every limit", device_with("a", R"("DRA_CPUSET_a=0-4294967295")"), "DRA_CPUSET_a: "},
       }) {
    SCOPED_TRACE(c.about);
    const auto got = parse_spec(file_with(c.device + "," + device_with("z", R"("DRA_CPUSET_z=3")")));
    ASSERT_TRUE(got.ok()) << got.error().text;
    ASSERT_EQ(got->size(), 2U);
    ASSERT_FALSE((*got)[0].cpus.ok());
    EXPECT_EQ((*got)[0].cpus.error().code, Errc::kCorrupt);
    EXPECT_NE((*got)[0].cpus.error().text.find(c.says), std::string::npos) << (*got)[0].cpus.error().text;
    EXPECT_TRUE((*got)[1].cpus.ok());
  }
}

TEST(ParseSpec, RefusesTheWholeFile) {
  struct Case {
    const char* about;
    std::string text;
  };
  const std::string good = claim_spec(kUid, CpuSet{1});
  for (const Case& c : std::initializer_list<Case>{
           {"empty", ""},
           {"cut off", good.substr(0, good.size() / 2)},
           {"without the last byte", good.substr(0, good.size() - 1)},
           {"bytes behind the end", good + "x"},
           {"zero bytes, as after a power cut", std::string(64, '\0')},
           {"not an object", "[]"},
           {"no kind", R"({"devices":[]})"},
           {"another vendor", R"({"kind":"vendor.com/gpu","devices":[]})"},
           {"kind is no text", R"({"kind":1,"devices":[]})"},
           {"no devices", R"({"kind":"dra.k8s.io/cpu"})"},
           {"devices is no list", R"({"kind":"dra.k8s.io/cpu","devices":{}})"},
           {"device is no object", file_with("1")},
           {"device without a name", file_with("{}")},
           {"name of another form", file_with(R"({"name":"cpu0"})")},
           {"uid that leads elsewhere", file_with(device_with("../../etc/shadow", ""))},
           {"nested beyond reason", std::string(100000, '[')},
           {"not UTF-8", file_with("\"\xff\"")},
       }) {
    SCOPED_TRACE(c.about);
    const auto got = parse_spec(c.text);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kCorrupt);
  }
}

TEST(WithoutClaim, KeepsTheOthersAsTheyWere) {
  const std::string a = device_with("a", R"("DRA_CPUSET_a=1")");
  const std::string b =
      R"({"name":"claim-b","annotations":{"k":"v"},"containerEdits":{"env":["DRA_CPUSET_b=2"]}})";
  const std::string c = device_with("c", R"("DRA_CPUSET_c=3")");
  const auto rest = without_claim(file_with(a + "," + b + "," + c), ClaimUid("a"));
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(*rest, file_with(b + "," + c));
  const auto same = without_claim(file_with(a), ClaimUid("x"));
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(*same, file_with(a));
  const auto none = without_claim(file_with(a), ClaimUid("a"));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, "");
  EXPECT_FALSE(without_claim("{", ClaimUid("a")).ok());
}

}  // namespace
}  // namespace dracpu::cdi
