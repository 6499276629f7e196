// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// For tests: the runtime's end of the trunk, and a handler that does what a test says. Frames and envelopes
// are written and cut here by hand, apart from src/nri/mux and ttrpc, so that a fault there cannot hide
// itself.

#ifndef DRACPU_NRI_FAKE_RUNTIME_H_
#define DRACPU_NRI_FAKE_RUNTIME_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "nri/handler.h"
#include "nri/plugin.h"

namespace dracpu::nri::testing {

using std::chrono::milliseconds;

// Machines under sanitizers and load are slow; only a test that fails waits this long.
inline constexpr milliseconds kPatience{30000};
// ConfigureRequest with request_timeout 60 000: a slow machine must not turn answers into refusals.
inline constexpr std::string_view kMinute = "28 e0 d4 03";

std::string from_hex(std::string_view text);  // spaces and line ends ignored
std::string to_hex(std::string_view bytes);
std::string big_endian(std::uint32_t value);
std::string varint(std::uint64_t value);
std::string field(unsigned number, std::string_view bytes);  // length-delimited
std::string frame(std::uint32_t connection, std::string_view payload);
std::string ttrpc_message(std::uint32_t stream, unsigned type, std::string_view data);
// Envelope of a request of the plugin's service.
std::string request_data(std::string_view method, std::string_view payload = {},
                         std::int64_t timeout_nano = 0,
                         std::string_view service = "nri.pkg.api.v1alpha1.Plugin");
// Payload of a request about one container: pod in field 1, container in field 2.
std::string container_request(std::string_view container_id, std::string_view pod_id = "pod1");
std::string container_bytes(std::string_view id, std::string_view pod_id, std::string_view cpus = {});
std::string pod_bytes(std::string_view id, std::string_view uid);

struct WireMessage {
  std::uint32_t connection = 0;
  std::uint32_t stream = 0;
  unsigned type = 0;
  std::string data;
  std::vector<std::size_t> frames;  // payload sizes
  std::string bytes;                // as they came, all headers included
};

struct Reply {
  std::int32_t code = 0;
  std::string text;
  std::string payload;
};

// One accepted connection.
class Peer {
 public:
  explicit Peer(UniqueFd fd) : fd_(std::move(fd)) {}

  void send(std::string_view bytes);  // as they are
  void request(std::uint32_t stream, std::string_view method, std::string_view payload = {},
               std::int64_t timeout_nano = 0);

  // The next message, cut as the Go receiver demands; a test failure if the cut is another. Nothing at the
  // end of the stream or when patience ends.
  std::optional<WireMessage> receive(milliseconds patience = kPatience);
  // The next message must answer `stream` on connection 1.
  Reply reply_to(std::uint32_t stream, milliseconds patience = kPatience);
  bool at_end(milliseconds patience = kPatience);  // true when the plugin closed
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

  void expect_register();
  void accept_registration();
  // All up to and with an empty Synchronize; streams 1 and 3 of connection 1 are used after it.
  void introduce();

 private:
  bool read_exactly(std::string& out, std::size_t size, milliseconds patience);
  UniqueFd fd_;
};

class FakeRuntime {
 public:
  FakeRuntime();
  ~FakeRuntime();
  FakeRuntime(const FakeRuntime&) = delete;
  FakeRuntime& operator=(const FakeRuntime&) = delete;

  const std::filesystem::path& socket() const { return socket_; }
  void listen();   // removes what is there and binds anew
  void silence();  // closes the listener and removes the file
  Peer accept(milliseconds patience = kPatience);

 private:
  std::filesystem::path dir_;
  std::filesystem::path socket_;
  UniqueFd listener_;
};

class TestHandler : public Handler {
 public:
  std::function<Result<std::vector<ContainerUpdate>>(std::vector<ContainerInfo>, Deadline)> synchronize;
  std::function<Result<CreateAnswer>(const ContainerInfo&, Deadline)> create;
  std::function<Result<std::vector<ContainerUpdate>>(const ContainerInfo&, Deadline)> update;
  std::function<Result<std::vector<ContainerUpdate>>(const ContainerInfo&, Deadline)> stop;

  void on_configure(const RuntimeInfo& runtime) override;
  Result<std::vector<ContainerUpdate>> on_synchronize(std::vector<ContainerInfo> containers,
                                                      Deadline deadline) override;
  void on_synchronized() override { note("synchronized"); }
  Result<CreateAnswer> on_create(const ContainerInfo& container, Deadline deadline) override;
  Result<std::vector<ContainerUpdate>> on_update(const ContainerInfo& container, Deadline deadline) override;
  Result<std::vector<ContainerUpdate>> on_stop(const ContainerInfo& container, Deadline deadline) override;
  void on_remove(const ContainerInfo& container) override { note("remove " + container.id.get()); }
  void on_not_applied(const std::optional<ContainerId>& created,
                      const std::vector<ContainerId>& updated) override;
  void on_disconnect(const Error& reason) override;

  void note(std::string event);
  std::vector<std::string> events() const;
  // True once the events contain it.
  bool saw(std::string_view event, milliseconds patience = kPatience) const;
  std::size_t count(std::string_view event) const;
  RuntimeInfo runtime() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> events_;
  RuntimeInfo runtime_;
};

// Options with short times for tests.
PluginOptions quick_options(const std::filesystem::path& socket);

}  // namespace dracpu::nri::testing

#endif  // DRACPU_NRI_FAKE_RUNTIME_H_
