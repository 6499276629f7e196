// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubelet/socket_file.h"

namespace dracpu::kubelet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Options, PathsAreTheKubelets) {
  const Paths p = paths_for({});
  EXPECT_EQ(p.dra_socket, "/var/lib/kubelet/plugins/dra.cpu/dra.sock");
  EXPECT_EQ(p.registration_socket, "/var/lib/kubelet/plugins_registry/dra.cpu-reg.sock");
  ServerOptions o;
  o.kubelet_root_dir = "/srv/./kubelet/";
  EXPECT_EQ(paths_for(o).dra_socket, "/srv/kubelet/plugins/dra.cpu/dra.sock");
}

TEST(Options, HiddenNamesAreHiddenAndNoLonger) {
  for (const char* driver : {"d", "dra.cpu", "a-much-longer.driver-name.example.com"}) {
    ServerOptions o;
    o.driver_name = driver;
    const Paths p = paths_for(o);
    EXPECT_EQ(p.hidden_dra_name.front(), '.');
    EXPECT_EQ(p.hidden_registration_name.front(), '.');
    EXPECT_LE(p.hidden_dra_name.size(), p.dra_socket.filename().native().size());
    EXPECT_LE(p.hidden_registration_name.size(), p.registration_socket.filename().native().size());
  }
}

TEST(Options, ServicesInTheOrderThatTheKubeletWants) {
  ServerOptions o;
  EXPECT_THAT(supported_services(o), ElementsAre("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
                                                 "v1alpha1.DRAResourceHealth"));
  o.health = false;
  EXPECT_THAT(supported_services(o), ElementsAre("v1.DRAPlugin", "v1beta1.DRAPlugin"));
}

// A root folder for which the registration path has `bytes` bytes.
ServerOptions with_registration_path_of(std::size_t bytes) {
  ServerOptions o;
  const std::size_t rest = std::string("/plugins_registry/dra.cpu-reg.sock").size();
  o.kubelet_root_dir = "/" + std::string(bytes - rest - 1, 'k');
  EXPECT_EQ(paths_for(o).registration_socket.native().size(), bytes);
  return o;
}

TEST(Options, ASocketPathFitsOrBothNumbersAreNamed) {  // kubelet-dra-wire line 12
  EXPECT_TRUE(check_options(with_registration_path_of(kMaxSocketPath)).ok());
  const Status s = check_options(with_registration_path_of(108));
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kInvalidInput);
  EXPECT_THAT(s.error().text, HasSubstr("registration socket has 108 bytes, the kernel takes 107"));
}

TEST(Options, Refuses) {
  struct Case {
    const char* about;
    std::function<void(ServerOptions&)> change;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"relative root", [](auto& o) { o.kubelet_root_dir = "var/lib/kubelet"; }, "not an absolute path"},
           {"no root", [](auto& o) { o.kubelet_root_dir = ""; }, "not an absolute path"},
           {"no name", [](auto& o) { o.driver_name = ""; }, "no DNS name"},
           {"a path", [](auto& o) { o.driver_name = "../x"; }, "no DNS name"},
           {"upper case", [](auto& o) { o.driver_name = "Dra.cpu"; }, "no DNS name"},
           {"dash at the end", [](auto& o) { o.driver_name = "dra-.cpu"; }, "no DNS name"},
           {"two dots", [](auto& o) { o.driver_name = "dra..cpu"; }, "no DNS name"},
           {"64 characters", [](auto& o) { o.driver_name = std::string(64, 'a'); }, "has 64 characters"},
           {"lease too short", [](auto& o) { o.health_lease = o.health_resend; },
            "10 s with a report every 10 s"},
           {"no resend", [](auto& o) { o.health_resend = std::chrono::seconds(0); }, "every 0 s"},
       }) {
    SCOPED_TRACE(c.about);
    ServerOptions o;
    c.change(o);
    const Status s = check_options(o);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Errc::kInvalidInput);
    EXPECT_THAT(s.error().text, HasSubstr(c.says));
  }
  EXPECT_TRUE(check_options({}).ok());
}

}  // namespace
}  // namespace dracpu::kubelet
