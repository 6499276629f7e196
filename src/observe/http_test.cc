// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The server against plain sockets, and our own client against the server.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "base/file.h"
#include "base/unique_fd.h"
#include "observe/http_get.h"
#include "observe/http_server.h"

namespace dracpu::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) fd.reset();
  ::timeval limit{5, 0};  // a test that hangs is worse than one that fails
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  return fd;
}

void put(int fd, std::string_view text) {
  // A refused connection may be closed already.
  (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
}

// Until the server closes.
std::string read_all(int fd) {
  std::string out;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t n = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (n <= 0) return out;
    out.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

std::string read_until(int fd, std::string_view end) {
  std::string out;
  char c = 0;
  while (!out.ends_with(end) && ::recv(fd, &c, 1, 0) == 1) out += c;
  return out;
}

HttpOptions local() {
  HttpOptions options;
  options.bind_address = "127.0.0.1:0";
  return options;
}

void add_routes(HttpServer& server) {
  server.route("/hello", [](const HttpRequest& r) {
    return HttpResponse{200, "path=" + r.path + " query=" + r.query + " accept=" + r.accept + "\n"};
  });
  server.route("/throws", [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("broken"); });
}

TEST(HttpServer, AnswersAndRefuses) {
  HttpServer server(local());
  add_routes(server);
  server.route_put("/switch", [](const HttpRequest& r) {
    return HttpResponse{200,
                        fmt::format("{} v={} none={}\n", r.method, r.query_value("v"), r.query_value("x"))};
  });
  ASSERT_TRUE(server.start().ok());
  ASSERT_NE(server.port(), 0);
  struct Case {
    const char* about;
    std::string request;
    const char* status;
    const char* end;
  };
  for (const Case& c : std::vector<Case>{
           {"a page", "GET /hello?a=b HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\n", "\r\n\r\npath=/hello query=a=b accept=text/plain\n"},
           {"the absolute form",
            "GET http://node:8080/hello?a=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\n", "\r\n\r\npath=/hello query=a=b accept=\n"},
           {"its scheme in capitals", "HEAD HTTP://x/hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\n", "\r\n\r\n"},
           {"a host and no path", "GET http://x?a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 404 ", "there are:\n/hello\n/throws\n"},
           {"another scheme", "GET ftp://x/hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 404 ", "\n"},
           {"PUT in the absolute form",
            "PUT http://x/switch?v=4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\n",
            "\r\n\r\nPUT v=4 none=\n"},
           {"HTTP/1.0", "GET /hello HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "path=/hello query= accept=\n"},
           {"HEAD has the length but no body", "HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\n", "Content-Length: 27\r\n\r\n"},
           {"no such page", "GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\n", "there are:\n/hello\n/throws\n"},
           {"a path that climbs", "GET /hello/../hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 404 ", "\n"},
           {"PUT where it is taken", "PUT /switch?v=4&w=5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\n", "\r\n\r\nPUT v=4 none=\n"},
           {"PUT elsewhere", "PUT /hello HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 ", "here\n"},
           {"GET of what is only put", "GET /switch HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 404 ", "\n"},
           {"POST", "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 405 ",
            "only GET and HEAD are answered here\n"},
           {"DELETE", "DELETE /hello HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 ", "here\n"},
           {"an unknown method", "BREW /hello HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 ", "here\n"},
           {"GET with a body", "GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 413 ", "no body is taken here\n"},
           {"GET with chunks",
            "GET /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "HTTP/1.1 413 ", "no body is taken here\n"},
           {"a handler that throws", "GET /throws HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 500 ", "fault while answering: broken\n"},
           {"no HTTP", "hello there\r\n\r\n", "HTTP/1.1 400 ", "malformed request\n"},
           {"two lengths", "GET /hello HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 400 ", "malformed request\n"},
           {"a header over 16 KiB", "GET /hello HTTP/1.1\r\nX: " + std::string(20000, 'x') + "\r\n\r\n",
            "HTTP/1.1 431 ", "request header over 16 KiB\n"},
       }) {
    SCOPED_TRACE(c.about);
    const UniqueFd fd = connect_to(server.port());
    ASSERT_TRUE(fd.valid());
    put(fd.get(), c.request);
    const std::string got = read_all(fd.get());
    EXPECT_THAT(got, AllOf(StartsWith(c.status), EndsWith(c.end)));
    EXPECT_THAT(got, AllOf(HasSubstr("Cache-Control: no-store\r\n"),
                           HasSubstr("X-Content-Type-Options: nosniff\r\n")));
  }
}

TEST(HttpServer, KeepsAConnectionAndTakesPipelinedRequests) {
  HttpServer server(local());
  add_routes(server);
  ASSERT_TRUE(server.start().ok());
  const UniqueFd fd = connect_to(server.port());
  const std::string one = "GET /hello?n HTTP/1.1\r\nHost: x\r\n\r\n";
  put(fd.get(), one);
  EXPECT_THAT(read_until(fd.get(), "accept=\n"), StartsWith("HTTP/1.1 200"));
  put(fd.get(), one + one);
  EXPECT_THAT(read_until(fd.get(), "accept=\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(read_until(fd.get(), "accept=\n"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, ClosesTheSlowAndTheIdle) {
  HttpOptions options = local();
  options.header_timeout = milliseconds(100);
  options.idle_timeout = milliseconds(200);
  HttpServer server(options);
  add_routes(server);
  ASSERT_TRUE(server.start().ok());
  const UniqueFd silent = connect_to(server.port());
  EXPECT_EQ(read_all(silent.get()), "") << "nothing sent";
  const UniqueFd slow = connect_to(server.port());
  put(slow.get(), "GET /hello HT");
  EXPECT_EQ(read_all(slow.get()), "") << "half a header";
  const UniqueFd idle = connect_to(server.port());
  put(idle.get(), "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(read_all(idle.get()), EndsWith("accept=\n")) << "answered, then closed when idle";
}

TEST(HttpServer, LimitsConnections) {
  HttpOptions options = local();
  options.max_connections = 2;
  HttpServer server(options);
  add_routes(server);
  ASSERT_TRUE(server.start().ok());
  const std::string request = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
  UniqueFd a = connect_to(server.port());
  UniqueFd b = connect_to(server.port());
  put(a.get(), request);
  put(b.get(), request);
  EXPECT_NE(read_until(a.get(), "accept=\n"), "");
  EXPECT_NE(read_until(b.get(), "accept=\n"), "");
  const UniqueFd c = connect_to(server.port());
  put(c.get(), request);
  EXPECT_EQ(read_all(c.get()), "") << "one too many";
  a.reset();
  // The server sees the end of `a` on its own thread.
  std::string got;
  for (int i = 0; i < 100 && got.empty(); ++i) {
    const UniqueFd d = connect_to(server.port());
    put(d.get(), "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    got = read_all(d.get());
    if (got.empty()) std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_THAT(got, StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, WaitsForAPortThatSomebodyHolds) {
  auto first = std::make_unique<HttpServer>(local());
  ASSERT_TRUE(first->start().ok());
  std::atomic<bool> bound{false};
  HttpOptions options;
  options.bind_address = "127.0.0.1:" + std::to_string(first->port());
  options.bind_retry = milliseconds(20);
  options.on_bound = [&] { bound = true; };
  HttpServer second(options);
  add_routes(second);
  const Status s = second.start();
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kUnavailable);
  EXPECT_THAT(s.error().text, HasSubstr(options.bind_address));
  EXPECT_EQ(second.port(), 0);
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_FALSE(bound);
  first.reset();
  for (int i = 0; i < 500 && !bound; ++i) std::this_thread::sleep_for(milliseconds(10));
  ASSERT_TRUE(bound);
  const Result<HttpReply> reply = http_get(options.bind_address, "/hello", seconds(5));
  ASSERT_TRUE(reply.ok()) << reply.error().text;
  EXPECT_EQ(reply->status, 200);
}

TEST(HttpServer, StopsWithAndWithoutConnections) {
  HttpServer never(local());
  never.stop();
  HttpServer server(local());
  add_routes(server);
  ASSERT_TRUE(server.start().ok());
  const UniqueFd idle = connect_to(server.port());
  const UniqueFd half = connect_to(server.port());
  put(half.get(), "GET /hello HT");
  const auto begun = std::chrono::steady_clock::now();
  server.stop(seconds(5));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(2))
      << "nobody is waited for who is not being answered";
  EXPECT_EQ(read_all(idle.get()), "");
  EXPECT_EQ(server.port(), 0);
  server.stop();
}

TEST(HttpServer, RefusesAnAddressItCannotRead) {
  HttpServer server({.bind_address = "nowhere", .on_bound = {}});
  const Status s = server.start();
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kInvalidInput);
  server.stop();
}

TEST(HttpServer, UnixSocket) {
  const std::string path = testing::TempDir() + "http_test.sock";
  std::filesystem::remove(path);
  {
    // What a killed process leaves: a socket file that nobody listens on.
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), std::begin(at.sun_path));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);
  }
  HttpServer server({.bind_address = "unix:" + path, .on_bound = {}});
  add_routes(server);
  const Status s = server.start();
  ASSERT_TRUE(s.ok()) << s.error().text;
  struct ::stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const Result<HttpReply> reply = http_get("unix:" + path, "/hello", seconds(5));
  ASSERT_TRUE(reply.ok()) << reply.error().text;
  EXPECT_EQ(reply->body, "path=/hello query= accept=\n");
  HttpServer other({.bind_address = "unix:" + path, .on_bound = {}});
  EXPECT_FALSE(other.start().ok()) << "somebody alive holds it";
  other.stop();
  EXPECT_TRUE(std::filesystem::exists(path));
  server.stop();
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Only a dead socket is ours to replace: a file at that path was meant by somebody.
TEST(HttpServer, LeavesAFileAtItsSocketPathAlone) {
  const std::filesystem::path path = testing::TempDir() + "http_test.file";
  const std::filesystem::path link = testing::TempDir() + "http_test.link";
  const std::filesystem::path folder = testing::TempDir() + "http_test.folder";
  for (const auto& p : {path, link, folder}) std::filesystem::remove(p);
  ASSERT_TRUE(replace_file(unsynced_file_ops(), path, "precious", 0600).ok());
  std::filesystem::create_symlink(path, link);
  std::filesystem::create_directory(folder);
  for (const auto& p : {path, link, folder}) {
    SCOPED_TRACE(p);
    HttpServer server({.bind_address = "unix:" + p.string(), .on_bound = {}});
    const Status s = server.start();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Errc::kUnavailable);
    EXPECT_THAT(s.error().text, HasSubstr(p.string()));
    EXPECT_THAT(s.error().text, HasSubstr("no socket"));
    server.stop();
  }
  EXPECT_EQ(read_file(path).value(), "precious");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_directory(folder));
}

TEST(HttpServer, LeavesASocketThatTookItsPlace) {
  const std::string path = testing::TempDir() + "http_test2.sock";
  std::filesystem::remove(path);
  HttpServer first({.bind_address = "unix:" + path, .on_bound = {}});
  ASSERT_TRUE(first.start().ok());
  std::filesystem::remove(path);
  HttpServer second({.bind_address = "unix:" + path, .on_bound = {}});
  add_routes(second);
  ASSERT_TRUE(second.start().ok());
  first.stop();
  EXPECT_TRUE(http_get("unix:" + path, "/hello", seconds(5)).ok());
}

TEST(HttpGet, SaysWhyNot) {
  EXPECT_EQ(http_get("x", "/", seconds(1)).error().code, Errc::kInvalidInput);
  EXPECT_EQ(http_get("unix:/nowhere/s.sock", "/", seconds(1)).error().code, Errc::kUnavailable);
  // Accepts, and says nothing.
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(fd.get(), 4), 0);
  ASSERT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  EXPECT_EQ(http_get(address, "/", milliseconds(100)).error().code, Errc::kUnavailable);
  std::jthread other([&] {
    const UniqueFd silent(::accept(fd.get(), nullptr, nullptr));
    const UniqueFd peer(::accept(fd.get(), nullptr, nullptr));
    put(peer.get(), "SSH-2.0-x\r\n");
    ::shutdown(peer.get(), SHUT_WR);
    (void)read_all(peer.get());
  });
  EXPECT_EQ(http_get(address, "/", seconds(5)).error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace dracpu::observe
