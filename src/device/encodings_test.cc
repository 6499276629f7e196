// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The texts for external allocators, on the machines of the rules and on some that the first version cannot
// say.

#include "device/encodings.h"

#include <gtest/gtest.h>

#include "device/build.h"

namespace dracpu::device {
namespace {

CpuSet set_of(std::string_view text) { return CpuSet::parse(text).value(); }

// A machine of cores given as CPU lists.
topology::Topology with_cores(const std::vector<std::string>& cores) {
  topology::Topology out;
  for (const std::string& text : cores) {
    const CpuSet cpus = set_of(text);
    out.usable |= cpus;
    cpus.for_each([&](CpuId id) {
      topology::Cpu cpu;
      cpu.id = id;
      cpu.core = out.cores.size();
      out.cpus.emplace(id, cpu);
    });
    out.cores.push_back({cpus});
  }
  out.online = out.usable;
  return out;
}

// Cores first..first+count-1 with one thread every `stride`.
void add_cores(std::vector<std::string>& to, unsigned first, unsigned count, unsigned stride,
               unsigned threads) {
  for (unsigned core = first; core < first + count; ++core) {
    std::string text = std::to_string(core);
    for (unsigned t = 1; t < threads; ++t) text += "," + std::to_string(core + t * stride);
    to.push_back(text);
  }
}

TEST(SmtLayout, SaysEveryMachineOfTheRules) {
  struct Case {
    const char* about;
    std::vector<std::array<unsigned, 4>> cores;  // first, count, stride, threads
    const char* text;
    bool is_version_2 = false;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"4 cores of 2 threads", {{0, 4, 4, 2}}, "0-7>4"},
           {"SMT off", {{8, 4, 0, 1}}, "8-11"},
           {"mixed", {{0, 4, 4, 2}, {8, 2, 2, 2}, {12, 4, 0, 1}}, "8-11>2;0-7>4;12-15"},
           {"24 CPUs, 8 of them alone", {{8, 8, 8, 2}, {0, 8, 0, 1}}, "8-23>8;0-7"},
           {"a sibling off line", {{0, 1, 4, 2}, {1, 1, 0, 1}, {2, 2, 4, 2}}, "0,2-4,6-7>4;1"},
           {"80 CPUs", {{0, 40, 40, 2}}, "0-79>40"},
           {"384 CPUs", {{0, 192, 192, 2}}, "0-383>192"},
           {"four threads", {{0, 32, 32, 4}, {128, 32, 32, 4}}, "0-255>32*4", true},
           {"four threads and two", {{0, 4, 4, 4}, {16, 4, 4, 2}}, "16-23>4;0-15>4*4", true},
       }) {
    SCOPED_TRACE(c.about);
    std::vector<std::string> cores;
    for (const auto& [first, count, stride, threads] : c.cores)
      add_cores(cores, first, count, stride, threads);
    const std::optional<SmtLayout> got = smt_layout(with_cores(cores));
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->text, c.text);
    EXPECT_EQ(got->is_version_2, c.is_version_2);
  }
  EXPECT_EQ(smt_layout(with_cores({"0-1", "2-3"}))->text, "0-3>1");
  EXPECT_FALSE(smt_layout(with_cores({"0,1,3"})).has_value()) << "uneven threads cannot be said";
  EXPECT_EQ(smt_layout(with_cores({}))->text, "");
}

TEST(CpuWords, AreShortForRegularSets) {
  EXPECT_EQ(cpu_words({}), "");
  EXPECT_EQ(cpu_words(set_of("0")), "1");
  EXPECT_EQ(cpu_words(set_of("64-67")), "0,f");
  EXPECT_EQ(cpu_words(set_of("0-127,130")), "2*ffffffffffffffff,4");
  CpuSet odd;
  for (std::uint32_t cpu = 1; cpu < 256; cpu += 2) odd.insert(CpuId(cpu));
  EXPECT_EQ(cpu_words(odd), "4*aaaaaaaaaaaaaaaa");
}

TEST(LongTexts, AreReplacedOrLeftOutButNeverCut) {
  std::vector<std::string> cores;
  for (unsigned cpu = 1; cpu < 256; cpu += 2) cores.push_back(std::to_string(cpu));
  topology::Topology odd = with_cores(cores);
  const BuildOptions options = {.group_by = config::GroupBy::kMachine,
                                .allocator = config::Allocator::kExternal};
  Result<BuildResult> got = build_devices(odd, {}, options);
  ASSERT_TRUE(got.ok());
  const auto& attributes = got->devices[0].attributes;
  EXPECT_FALSE(attributes.contains("dra.cpu/cpuIDs"));
  EXPECT_EQ(attributes.at("dra.cpu/cpuIDsV2"), AttributeValue(std::string("4*aaaaaaaaaaaaaaaa")));
  EXPECT_FALSE(attributes.contains("dra.cpu/smtLayout"));
  ASSERT_EQ(got->warnings.size(), 2U) << "the layout is too long in every form, the list is replaced";

  const CpuSet ragged = set_of("1,11,21,31,61,67,75,99,111,123,145,155,165,177,185,195,205,225,235,245");
  got = build_devices(odd, ragged, options);
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(got->devices[0].attributes.contains("dra.cpu/cpuIDs"));
  EXPECT_FALSE(got->devices[0].attributes.contains("dra.cpu/cpuIDsV2"));
  EXPECT_EQ(got->warnings.size(), 2U);

  std::vector<std::string> wide;
  add_cores(wide, 0, 32, 32, 4);
  got = build_devices(with_cores(wide), {}, options);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->devices[0].attributes.at("dra.cpu/smtLayoutV2"), AttributeValue(std::string("0-127>32*4")));
  EXPECT_FALSE(got->devices[0].attributes.contains("dra.cpu/smtLayout"));
}

}  // namespace
}  // namespace dracpu::device
