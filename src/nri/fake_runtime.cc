// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/fake_runtime.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "ttrpc.pb.h"

namespace dracpu::nri::testing {
namespace {

std::uint32_t u32(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = at; i < at + 4; ++i) out = out * 256 + static_cast<unsigned char>(bytes[i]);
  return out;
}

}  // namespace

std::string from_hex(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  }
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return out;
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x} ", static_cast<unsigned char>(c));
  return out;
}

std::string big_endian(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(value >> static_cast<unsigned>(shift) & 0xffU);
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7fU) | 0x80U);
  return out + static_cast<char>(value);
}

std::string field(unsigned number, std::string_view bytes) {
  return varint(number << 3U | 2U) + varint(bytes.size()) + std::string(bytes);
}

std::string frame(std::uint32_t connection, std::string_view payload) {
  return big_endian(connection) + big_endian(static_cast<std::uint32_t>(payload.size())) +
         std::string(payload);
}

std::string ttrpc_message(std::uint32_t stream, unsigned type, std::string_view data) {
  return big_endian(static_cast<std::uint32_t>(data.size())) + big_endian(stream) + static_cast<char>(type) +
         '\0' + std::string(data);
}

std::string request_data(std::string_view method, std::string_view payload, std::int64_t timeout_nano,
                         std::string_view service) {
  std::string out = field(1, service) + field(2, method);
  if (!payload.empty()) out += field(3, payload);
  if (timeout_nano != 0) out += varint(4U << 3U) + varint(static_cast<std::uint64_t>(timeout_nano));
  return out;
}

std::string container_bytes(std::string_view id, std::string_view pod_id, std::string_view cpus) {
  std::string out = field(1, id) + field(2, pod_id) + field(3, "main");
  if (!cpus.empty()) out += field(11, field(3, field(2, field(6, cpus))));
  return out;
}

std::string pod_bytes(std::string_view id, std::string_view uid) {
  return field(1, id) + field(2, "web-0") + field(3, uid) + field(4, "shop");
}

std::string container_request(std::string_view container_id, std::string_view pod_id) {
  return field(1, pod_bytes(pod_id, "uid-" + std::string(pod_id))) +
         field(2, container_bytes(container_id, pod_id));
}

void Peer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the plugin closed; the test sees it when it reads
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Peer::request(std::uint32_t stream, std::string_view method, std::string_view payload,
                   std::int64_t timeout_nano) {
  const std::string message = ttrpc_message(stream, 1, request_data(method, payload, timeout_nano));
  send(frame(1, message.substr(0, 4096)) + (message.size() > 4096 ? frame(1, message.substr(4096)) : ""));
}

bool Peer::read_exactly(std::string& out, std::size_t size, milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  out.assign(size, '\0');
  for (std::size_t have = 0; have < size;) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    pollfd ready{fd_.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0) return false;
    const ssize_t got = ::recv(fd_.get(), out.data() + have, size - have, 0);
    if (got <= 0) return false;
    have += static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<WireMessage> Peer::receive(milliseconds patience) {
  WireMessage out;
  std::string message;
  for (std::size_t wanted = 10; message.size() < wanted;) {
    std::string head;
    std::string body;
    if (!read_exactly(head, 8, patience) || !read_exactly(body, u32(head, 4), patience)) return std::nullopt;
    EXPECT_TRUE(out.frames.empty() || out.connection == u32(head, 0)) << "frames of two messages are mixed";
    out.connection = u32(head, 0);
    out.frames.push_back(body.size());
    out.bytes += head + body;
    message += body;
    if (message.size() < 10) {
      ADD_FAILURE() << "a header is cut";
      return std::nullopt;
    }
    wanted = 10 + u32(message, 0);
    const bool first = out.frames.size() == 1;
    EXPECT_EQ(body.size(), first ? std::min<std::size_t>(wanted, 4096) : wanted - 4096) << "spec 1.6";
  }
  out.stream = u32(message, 4);
  out.type = static_cast<unsigned char>(message[8]);
  EXPECT_EQ(message[9], 0) << "flags";
  EXPECT_LE(message.size() - 10, 4194304U) << "spec 2.2";
  out.data = message.substr(10);
  return out;
}

Reply Peer::reply_to(std::uint32_t stream, milliseconds patience) {
  const std::optional<WireMessage> message = receive(patience);
  if (!message) {
    ADD_FAILURE() << "no answer on stream " << stream;
    return {-1, "none", ""};
  }
  EXPECT_EQ(message->connection, 1U);
  EXPECT_EQ(message->stream, stream);
  EXPECT_EQ(message->type, 2U);
  ttrpc::Response response;
  EXPECT_TRUE(response.ParseFromString(message->data));
  return {response.status().code(), response.status().message(), response.payload()};
}

bool Peer::at_end(milliseconds patience) {
  pollfd ready{fd_.get(), POLLIN, 0};
  char byte = 0;
  while (::poll(&ready, 1, static_cast<int>(patience.count())) > 0) {
    if (::recv(fd_.get(), &byte, 1, 0) <= 0) return true;
  }
  return false;
}

void Peer::expect_register() {
  const std::optional<WireMessage> message = receive();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->connection, 2U);
  EXPECT_EQ(message->stream, 1U);
  EXPECT_NE(message->data.find("RegisterPlugin"), std::string::npos);
}

void Peer::accept_registration() { send(frame(2, ttrpc_message(1, 2, {}))); }

void Peer::introduce() {
  expect_register();
  accept_registration();
  request(1, "Configure", from_hex(kMinute), 60'000'000'000);
  EXPECT_EQ(reply_to(1).code, 0);
  request(3, "Synchronize");
  EXPECT_EQ(reply_to(3).code, 0);
}

FakeRuntime::FakeRuntime() {
  std::string pattern = (std::filesystem::temp_directory_path() / "dracpu-nri-XXXXXX").native();
  EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
  dir_ = pattern;
  socket_ = dir_ / "nri" / "nri.sock";
}

FakeRuntime::~FakeRuntime() {
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

void FakeRuntime::listen() {
  std::error_code ignored;
  std::filesystem::create_directories(socket_.parent_path(), ignored);
  std::filesystem::remove(socket_, ignored);
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.c_str(), socket_.native().size());
  ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener_.get(), 8), 0);
}

void FakeRuntime::silence() {
  listener_.reset();
  std::error_code ignored;
  std::filesystem::remove(socket_, ignored);
}

Peer FakeRuntime::accept(milliseconds patience) {
  pollfd ready{listener_.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, static_cast<int>(patience.count())), 1) << "nobody connected";
  return Peer(UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

void TestHandler::note(std::string event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

std::vector<std::string> TestHandler::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

bool TestHandler::saw(std::string_view event, milliseconds patience) const {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (count(event) == 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

std::size_t TestHandler::count(std::string_view event) const {
  const std::vector<std::string> all = events();
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), event));
}

RuntimeInfo TestHandler::runtime() const {
  const std::lock_guard lock(mutex_);
  return runtime_;
}

void TestHandler::on_configure(const RuntimeInfo& runtime) {
  {
    const std::lock_guard lock(mutex_);
    runtime_ = runtime;
  }
  note("configure");
}

Result<std::vector<ContainerUpdate>> TestHandler::on_synchronize(std::vector<ContainerInfo> containers,
                                                                 Deadline deadline) {
  note(fmt::format("synchronize {}", containers.size()));
  if (synchronize) return synchronize(std::move(containers), deadline);
  return std::vector<ContainerUpdate>();
}

Result<CreateAnswer> TestHandler::on_create(const ContainerInfo& container, Deadline deadline) {
  note("create " + container.id.get());
  if (create) return create(container, deadline);
  return CreateAnswer();
}

Result<std::vector<ContainerUpdate>> TestHandler::on_update(const ContainerInfo& container,
                                                            Deadline deadline) {
  note("update " + container.id.get());
  if (update) return update(container, deadline);
  return std::vector<ContainerUpdate>();
}

Result<std::vector<ContainerUpdate>> TestHandler::on_stop(const ContainerInfo& container, Deadline deadline) {
  note("stop " + container.id.get());
  if (stop) return stop(container, deadline);
  return std::vector<ContainerUpdate>();
}

void TestHandler::on_not_applied(const std::optional<ContainerId>& created,
                                 const std::vector<ContainerId>& updated) {
  std::string text = "not applied";
  if (created) text += " " + created->get();
  for (const ContainerId& id : updated) text += " " + id.get();
  note(std::move(text));
}

void TestHandler::on_disconnect(const Error& /*reason*/) { note("disconnect"); }

PluginOptions quick_options(const std::filesystem::path& socket) {
  PluginOptions out;
  out.socket = socket;
  out.name = "cpupin";
  out.index = "10";
  out.first_retry = milliseconds(10);
  out.max_retry = milliseconds(100);
  return out;
}

}  // namespace dracpu::nri::testing
