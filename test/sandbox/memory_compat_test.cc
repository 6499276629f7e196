// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Claims written for the standalone memory driver, and settings and figures that need a node around them.

#include "memory_fixture.h"

namespace dracpu::sandbox {
namespace {

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
