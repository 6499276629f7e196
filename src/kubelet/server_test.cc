// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Registration and the life of the two sockets. Line numbers are those of spec kubelet-dra-wire section 9.

#include "kubelet/server.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "kubelet/test_peer.h"

namespace dracpu::kubelet {
namespace {

namespace fs = std::filesystem;
namespace reg = ::pluginregistration;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

UniqueFd raw_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path, path.c_str(), path.native().size());
  return out;
}

UniqueFd raw_connect(const fs::path& path) {
  UniqueFd fd = raw_socket();
  const sockaddr_un address = address_of(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
  return fd;
}

UniqueFd raw_listen(const fs::path& path) {
  UniqueFd fd = raw_socket();
  const sockaddr_un address = address_of(path);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
  return fd;
}

std::size_t entries_in(const fs::path& dir) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}
std::size_t open_files() { return entries_in("/proc/self/fd"); }

class RegistrationTest : public ServerTest {
 protected:
  std::pair<grpc::Status, reg::PluginInfo> get_info(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    limit(context);
    reg::PluginInfo info;
    const grpc::Status status = reg::Registration::NewStub(channel)->GetInfo(&context, {}, &info);
    return {status, info};
  }
  grpc::Status notify(bool registered, const std::string& error) {
    grpc::ClientContext context;
    limit(context);
    reg::RegistrationStatus request;
    request.set_plugin_registered(registered);
    request.set_error(error);
    reg::RegistrationStatusResponse response;
    return reg::Registration::NewStub(dial(registration_path()))
        ->NotifyRegistrationStatus(&context, request, &response);
  }
};

TEST_F(RegistrationTest, StaleFilesAreReplaced) {  // line 1
  fs::create_directories(dra_path().parent_path());
  fs::create_directories(registration_path().parent_path());
  { const UniqueFd crashed = raw_listen(dra_path()); }
  { const UniqueFd crashed = raw_listen(registration_path().parent_path() / ".dra.cpu.new"); }
  std::ofstream(registration_path()) << "not even a socket";
  start();
  EXPECT_TRUE(get_info(dial(registration_path())).first.ok());
  EXPECT_TRUE(prepare(dial_dra(), {"a"}).first.ok());
  EXPECT_EQ(entries_in(dra_path().parent_path()), 1U);
  EXPECT_EQ(entries_in(registration_path().parent_path()), 1U);
}

TEST_F(RegistrationTest, SaysWhoWeAre) {  // lines 2 and 3
  start();
  const auto channel = dial(registration_path());
  for (int i = 0; i < 10; ++i) {
    const auto [status, info] = get_info(channel);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(info.type(), "DRAPlugin");
    EXPECT_EQ(info.name(), "dra.cpu");
    EXPECT_EQ(info.endpoint(), dra_path().string());
    EXPECT_THAT(info.supported_versions(), ElementsAre("v1.DRAPlugin", "v1beta1.DRAPlugin",
                                                       "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"));
    if (i == 4) {
      EXPECT_TRUE(notify(true, "").ok());
    }
  }
  EXPECT_EQ(handler_.verdicts().size(), 1U);
}

TEST_F(RegistrationTest, TheVerdictReachesTheHandler) {  // lines 4 and 5, the server's part
  start();
  EXPECT_TRUE(notify(false, "endpoint already registered").ok());
  EXPECT_TRUE(notify(true, "").ok());
  EXPECT_THAT(handler_.verdicts(),
              ElementsAre(std::pair<bool, std::string>(false, "endpoint already registered"),
                          std::pair<bool, std::string>(true, "")));
}

// Line 7: whoever sees the registration socket finds the DRA socket answering, however quick he is.
TEST_F(RegistrationTest, TheDraSocketAnswersFirst) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> stop = false;
    std::atomic<int> refused = 0;
    std::atomic<int> tried = 0;
    std::thread watcher([&] {
      while (!stop) {
        if (!fs::exists(registration_path())) continue;
        if (!raw_connect(registration_path()).valid()) ++refused;
        if (!raw_connect(dra_path()).valid()) ++refused;
        ++tried;
        return;
      }
    });
    start();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (tried == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    stop = true;
    watcher.join();
    EXPECT_EQ(tried, 1);
    EXPECT_EQ(refused, 0);
    server_->stop();
    server_.reset();
  }
}

TEST_F(RegistrationTest, AnyAuthorityIsAccepted) {  // line 9
  start();
  std::string encoded;
  for (const char c : registration_path().string()) encoded += c == '/' ? "%2F" : std::string(1, c);
  for (const std::string& authority : {registration_path().string(), encoded, std::string("localhost")}) {
    SCOPED_TRACE(authority);
    const auto [status, info] = get_info(dial(registration_path(), authority));
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(prepare(dial(dra_path(), authority), {"a"}).first.ok());
  }
}

TEST_F(RegistrationTest, AConnectionWithoutARequestStaysOpen) {  // line 10, as far as a test can wait
  start();
  const UniqueFd silent = raw_connect(dra_path());
  ASSERT_TRUE(silent.valid());
  const auto idle = dial_dra();
  ASSERT_TRUE(idle->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(5)));
  EXPECT_FALSE(idle->WaitForStateChange(GRPC_CHANNEL_READY,
                                        std::chrono::system_clock::now() + std::chrono::milliseconds(1500)));
  // The server greets with its SETTINGS; what must not come is the end of the stream.
  std::array<char, 4096> buffer{};
  ssize_t n = 0;
  while ((n = ::recv(silent.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0) {
  }
  EXPECT_EQ(n, -1) << "closed by the server";
  EXPECT_TRUE(errno == EAGAIN || errno == EWOULDBLOCK);
}

TEST_F(RegistrationTest, AHundredConnectionsLeaveNothingBehind) {  // line 11
  start();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(prepare(dial_dra(), {"a"}).first.ok());
  const std::size_t before = open_files();
  for (int i = 0; i < 100; ++i) {
    if (i % 2 == 0) {
      ASSERT_TRUE(prepare(dial_dra(), {"a"}).first.ok());
      ASSERT_TRUE(get_info(dial(registration_path())).first.ok());
    } else {
      ASSERT_TRUE(raw_connect(dra_path()).valid());
    }
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (open_files() > before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_LE(open_files(), before);
}

TEST_F(RegistrationTest, AClosedPeerRaisesNoSignal) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_DFL), SIG_ERR);
  handler_.on_prepare = [](const std::vector<ClaimRef>& claims, FakeHandler::PrepareDone done) {
    PrepareResults results = FakeHandler::one_device_each(claims);
    results.begin()->second.value().front().request_names.assign(1000, std::string(100, 'x'));
    done(std::move(results));
  };
  start();
  for (int i = 0; i < 20; ++i) {
    (void)prepare(dial_dra(), {"a"}, 1);  // gone before or while the answer is written
    const UniqueFd fd = raw_connect(dra_path());
    EXPECT_GT(::send(fd.get(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, MSG_NOSIGNAL), 0);
  }
  EXPECT_TRUE(prepare(dial_dra(), {"a"}).first.ok());
}

TEST_F(RegistrationTest, FoldersAndSocketsHaveSaneModes) {
  const mode_t old_umask = ::umask(0);
  start();
  ::umask(old_umask);
  EXPECT_EQ(fs::status(root_ / "plugins" / "dra.cpu").permissions(), fs::perms{0750});
  EXPECT_EQ(fs::status(root_ / "plugins_registry").permissions(), fs::perms{0755});
  EXPECT_EQ(fs::status(dra_path()).permissions(), fs::perms{0600});
  EXPECT_EQ(fs::status(registration_path()).permissions(), fs::perms{0600});
}

TEST_F(RegistrationTest, WhatIsInTheWayIsNamed) {
  options_.kubelet_root_dir = root_ / "missing";
  Result<std::unique_ptr<Server>> server = Server::start(options_, handler_);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, Errc::kNotFound);
  EXPECT_THAT(server.error().text, HasSubstr((root_ / "missing").string()));
  EXPECT_THAT(server.error().text, HasSubstr("mounted"));

  options_.kubelet_root_dir = root_;
  std::ofstream(root_ / "plugins_registry") << "a file";
  server = Server::start(options_, handler_);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.error().text, HasSubstr("plugins_registry"));
  EXPECT_FALSE(fs::exists(dra_path()));

  fs::remove(root_ / "plugins_registry");
  fs::create_directories(registration_path() / "full");
  server = Server::start(options_, handler_);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.error().text, HasSubstr(registration_path().string()));
  EXPECT_FALSE(fs::exists(dra_path())) << "half open is not open";
}

TEST_F(RegistrationTest, NoticesThatASocketWasReplaced) {
  start();
  EXPECT_FALSE(server_->sockets_replaced());
  const Status s = check_no_other_driver(options_);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kConflict);
  for (const fs::path& path : {dra_path(), registration_path()}) {
    fs::rename(path, path.string() + ".aside");
    EXPECT_TRUE(server_->sockets_replaced()) << "missing counts too";
    fs::rename(path.string() + ".aside", path);
    EXPECT_FALSE(server_->sockets_replaced());
  }
  fs::remove(dra_path());
  const UniqueFd other = raw_listen(dra_path());
  EXPECT_TRUE(server_->sockets_replaced());
  server_->stop();
  EXPECT_FALSE(server_->sockets_replaced());
  EXPECT_TRUE(fs::exists(dra_path())) << "the other driver's socket is not ours to remove";
  EXPECT_TRUE(raw_connect(dra_path()).valid());
  EXPECT_FALSE(fs::exists(registration_path()));
}

TEST_F(RegistrationTest, StopLeavesNothingAndStartsAgain) {  // line 8
  EXPECT_TRUE(check_no_other_driver(options_).ok());
  for (int i = 0; i < 10; ++i) {
    start();
    const auto idle = dial_dra();
    ASSERT_TRUE(prepare(idle, {"a"}).first.ok());
    server_->stop();
    server_->stop();
    EXPECT_EQ(entries_in(dra_path().parent_path()), 0U);
    EXPECT_EQ(entries_in(registration_path().parent_path()), 0U);
    EXPECT_FALSE(raw_connect(dra_path()).valid());
    EXPECT_TRUE(check_no_other_driver(options_).ok());
  }
}

TEST_F(RegistrationTest, StartAndStopAreQuick) {
  start();
  server_.reset();  // gRPC's own first start is behind us
  using Clock = std::chrono::steady_clock;
  Clock::duration start_time = Clock::duration::max();
  Clock::duration stop_time = Clock::duration::max();
  for (int i = 0; i < 10; ++i) {
    const Clock::time_point t0 = Clock::now();
    start();
    const Clock::time_point t1 = Clock::now();
    const UniqueFd silent = raw_connect(dra_path());
    server_->stop();
    start_time = std::min(start_time, t1 - t0);
    stop_time = std::min(stop_time, Clock::now() - t1);
  }
  const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  RecordProperty("start_ms", std::to_string(ms(start_time)));
  RecordProperty("stop_ms", std::to_string(ms(stop_time)));
  std::printf("start to listening %.1f ms, stop %.1f ms (best of 10)\n", ms(start_time), ms(stop_time));
  EXPECT_LT(start_time, std::chrono::milliseconds(100));
  EXPECT_LT(stop_time, std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace dracpu::kubelet
