// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/reserved.h"

#include <gtest/gtest.h>

#include "memory/test_amounts.h"

namespace dracpu::memory {
namespace {

TEST(Reserved, Accepts) {
  struct Case {
    const char* about;
    const char* text;
    Amounts amounts;
  };
  const Amounts three = amounts_on({{Kind(), 0, 1_GiB}, {kind(2_MiB), 0, 64_MiB}, {Kind(), 1, 512_MiB}});
  for (const Case& c : std::vector<Case>{
           {"nothing", "", {}},
           {"only spaces", "  ", {}},
           {"the example of the manual", "0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=512Mi", three},
           {"spaces around separators", " 0 : memory = 1Gi , hugepages-2Mi=64Mi ; 1:memory=512Mi ", three},
           {"one node in two entries", "0:memory=1Gi;0:hugepages-2Mi=64Mi;1:memory=512Mi", three},
           {"plain bytes", "0:memory=1073741824", amounts_on({{Kind(), 0, 1_GiB}})},
           {"an exponent, not page aligned", "0:memory=1e9", amounts_on({{Kind(), 0, {1000000000}}})},
           {"decimal", "0:memory=1G", amounts_on({{Kind(), 0, {1000000000}}})},
           {"a fraction of a unit that is whole bytes", "0:memory=0.5Gi", amounts_on({{Kind(), 0, 512_MiB}})},
           {"a size that this machine may not have", "3:hugepages-16Gi=32Gi",
            amounts_on({{kind(16_GiB), 3, 32_GiB}})},
       }) {
    SCOPED_TRACE(c.about);
    const Result<Amounts> got = parse_reserved(c.text);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(*got, c.amounts);
  }
}

TEST(Reserved, RefusesWithTheSentencesOfTheManual) {
  struct Case {
    const char* text;
    const char* refusal;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"memory=1Gi", R"(entry "memory=1Gi" is not <numa node>:<type>=<quantity>)"},
           {"0:memory", R"(entry "0:memory" is not <numa node>:<type>=<quantity>)"},
           {"0:=1Gi", R"(entry "0:=1Gi" is not <numa node>:<type>=<quantity>)"},
           {"0:memory=", R"(entry "0:memory=" is not <numa node>:<type>=<quantity>)"},
           {"0:memory=much", R"(entry "0:memory=much" is not <numa node>:<type>=<quantity>)"},
           {"0:memory=0.5", R"(entry "0:memory=0.5" is not <numa node>:<type>=<quantity>)"},
           {"-1:memory=1Gi", R"(entry "-1:memory=1Gi" is not <numa node>:<type>=<quantity>)"},
           {"x:memory=1Gi", R"(entry "x:memory=1Gi" is not <numa node>:<type>=<quantity>)"},
           {"0:memory=1Gi;", R"(entry "" is not <numa node>:<type>=<quantity>)"},
           {"0:memory=1Gi,", R"(entry "0:memory=1Gi," is not <numa node>:<type>=<quantity>)"},
           {"0:memory=1Gi;0:memory=2Gi", "NUMA node 0: memory is given twice"},
           {"0:memory=1Gi,memory=1Gi", "NUMA node 0: memory is given twice"},
           {"0:ram=1Gi", R"(NUMA node 0: unknown type "ram")"},
           {"0:hugepages-2M=2M", R"(NUMA node 0: unknown type "hugepages-2M")"},
           {"0:memory=0", "NUMA node 0: memory must be greater than zero"},
           {"0:memory=-1Gi", "NUMA node 0: memory must be greater than zero"},
           {"0:hugepages-2Mi=3Mi", "NUMA node 0: hugepages-2Mi=3Mi is not a multiple of the page size"},
       }) {
    SCOPED_TRACE(c.text);
    const Result<Amounts> got = parse_reserved(c.text);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_EQ(got.error().text, std::string("memory.reserved: ") + c.refusal);
  }
}

TEST(Reserved, FitsTheMachine) {
  const topology::MachineMemory machine = machine_of({{0, worked_node()}, {1, worked_node()}});
  struct Case {
    const char* text;
    const char* refusal;  // null: it fits
  };
  for (const Case& c : std::initializer_list<Case>{
           {"0:memory=1Gi;1:hugepages-1Gi=4Gi", nullptr},
           {"0:memory=58156Mi", nullptr},
           {"5:memory=1Gi", "NUMA node 5 has no memory on this machine"},
           {"0:memory=58157Mi", "NUMA node 0: memory=58157Mi exceeds the 58156Mi present"},
           {"1:hugepages-1Gi=5Gi", "NUMA node 1: hugepages-1Gi=5Gi exceeds the 4Gi present"},
           {"1:hugepages-32Mi=32Mi", "NUMA node 1: hugepages-32Mi=32Mi exceeds the 0 present"},
       }) {
    SCOPED_TRACE(c.text);
    const Status got = check_reserved(parse_reserved(c.text).value(), machine);
    EXPECT_EQ(got.ok(), c.refusal == nullptr);
    if (!got.ok() && c.refusal != nullptr) {
      EXPECT_EQ(got.error().text, std::string("memory.reserved: ") + c.refusal);
    }
  }
}

TEST(Nodes, AreAListOfNodesWithMemory) {
  const topology::MachineMemory machine = machine_of({{0, worked_node()}, {1, worked_node()}});
  EXPECT_TRUE(parse_nodes("")->empty());
  EXPECT_TRUE(check_nodes(parse_nodes("0-1").value(), machine).ok());
  const Status missing = check_nodes(parse_nodes("7").value(), machine);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().text, "memory.nodes: NUMA node 7 has no memory on this machine");
  const Result<std::set<NumaNodeId>> malformed = parse_nodes("0-");
  ASSERT_FALSE(malformed.ok());
  EXPECT_EQ(malformed.error().text, "memory.nodes: \"0-\" is not a list of NUMA nodes such as 0-1,4");
}

}  // namespace
}  // namespace dracpu::memory
