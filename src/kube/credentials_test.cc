// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/credentials.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/strings.h"

namespace dracpu::kube {
namespace {

using std::chrono::seconds;

class TempDir {
 public:
  TempDir() : path_(std::filesystem::temp_directory_path() / ("dracpu-kube-" + random_hex(8))) {
    std::filesystem::create_directories(path_);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, std::string_view text) const { std::ofstream(path_ / name) << text; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(ServerUrl, Accepts) {
  struct Case {
    const char* url;
    Endpoint want;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"https://10.0.0.1:6443", {true, "10.0.0.1", 6443, ""}},
           {"https://api.example", {true, "api.example", 443, ""}},
           {"https://api.example/", {true, "api.example", 443, ""}},
           {"http://127.0.0.1:8001", {false, "127.0.0.1", 8001, ""}},
           {"http://h", {false, "h", 80, ""}},
           {"https://[::1]:6443", {true, "::1", 6443, ""}},
           {"https://[fd00::1]", {true, "fd00::1", 443, ""}},
           {"https://h:1/k8s/clusters/c-1/", {true, "h", 1, "/k8s/clusters/c-1"}},
           {"h:6443", {true, "h", 6443, ""}},
       }) {
    SCOPED_TRACE(c.url);
    const Result<Endpoint> got = parse_server_url(c.url);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(*got, c.want);
  }
}

TEST(ServerUrl, Refuses) {
  for (const char* url :
       {"", "https://", "ftp://h", "https://h:0", "https://h:65536", "https://h:", "https://h:x",
        "https://[::1", "https://[::1]x", "https://[::1]:", "https://u@h", "https://h?x", "https://h#x",
        "https://a:1:2", "https://h/ x", "https://h\r\nX: y"}) {
    SCOPED_TRACE(url);
    EXPECT_FALSE(parse_server_url(url).ok());
  }
}

constexpr std::string_view kHead =
    "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n"
    "- name: c\n  context: {cluster: k, user: u}\n";

std::string config_with(std::string_view cluster, std::string_view user) {
  return fmt::format("{}clusters:\n- name: k\n  cluster: {}\nusers:\n- name: u\n  user: {}\n", kHead, cluster,
                     user);
}

TEST(Kubeconfig, ReadsAllForms) {
  const Result<ClientConfig> got = parse_kubeconfig(
      config_with("{server: 'https://h:6443/p', certificate-authority: pki/ca.crt, tls-server-name: n}",
                  "{client-certificate-data: 'Q0VSVA==', client-key: /abs/key, token: t, tokenFile: tok}"),
      "f", "/etc/kube");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->endpoint, (Endpoint{true, "h", 6443, "/p"}));
  EXPECT_EQ(got->ca.file, "/etc/kube/pki/ca.crt");
  EXPECT_EQ(got->tls_server_name, "n");
  EXPECT_EQ(got->client_cert.text, "CERT");
  EXPECT_EQ(got->client_key.file, "/abs/key");
  EXPECT_EQ(got->token.text, "t");
  EXPECT_EQ(got->token.file, "/etc/kube/tok");
  EXPECT_FALSE(got->skip_verify);
}

TEST(Kubeconfig, DataWinsOverFileAndJsonWorks) {
  const Result<ClientConfig> got = parse_kubeconfig(
      R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k"}}],
          "clusters":[{"name":"other","cluster":{"server":"https://no"}},
           {"name":"k","cluster":{"server":"http://h","certificate-authority":"x","certificate-authority-data":"Q0E="}}]})",
      "f", "/d");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->ca.text, "CA");
  EXPECT_TRUE(got->ca.file.empty());
  EXPECT_FALSE(got->token.given());
  EXPECT_FALSE(got->endpoint.tls);
}

TEST(Kubeconfig, RefusalsNameFileAndField) {
  struct Case {
    const char* about;
    std::string text;
    Errc code;
    const char* says;
  };
  const std::string good = "{server: 'https://h'}";
  for (const Case& c : std::initializer_list<Case>{
           {"empty", "", Errc::kInvalidInput, "file"},
           {"a list", "[1]", Errc::kInvalidInput, "file"},
           {"broken yaml", "a: [", Errc::kInvalidInput, "f1"},
           {"no context chosen", "contexts: []", Errc::kInvalidInput, "current-context: missing"},
           {"unknown context", "current-context: z\ncontexts: []", Errc::kInvalidInput,
            "contexts: no entry \"z\""},
           {"unknown cluster", std::string(kHead), Errc::kInvalidInput, "clusters: no entry \"k\""},
           {"clusters is no list", std::string(kHead) + "clusters: 1", Errc::kInvalidInput,
            "clusters: expected a list"},
           {"unknown user", std::string(kHead) + "clusters:\n- {name: k, cluster: {server: h}}",
            Errc::kInvalidInput, "users: no entry \"u\""},
           {"no server", config_with("{}", "{}"), Errc::kInvalidInput, "clusters[k].cluster.server: missing"},
           {"server is a list", config_with("{server: []}", "{}"), Errc::kInvalidInput, "expected a text"},
           {"bad server", config_with("{server: 'ftp://h'}", "{}"), Errc::kInvalidInput,
            "clusters[k].cluster.server"},
           {"proxy", config_with("{server: h, proxy-url: 'http://p'}", "{}"), Errc::kUnsupported,
            "proxy-url"},
           {"bad base64", config_with("{server: h, certificate-authority-data: '$$'}", "{}"),
            Errc::kInvalidInput, "certificate-authority-data: expected base64"},
           {"bad padding", config_with("{server: h, certificate-authority-data: 'QQ'}", "{}"),
            Errc::kInvalidInput, "expected base64"},
           {"bad flag", config_with("{server: h, insecure-skip-tls-verify: maybe}", "{}"),
            Errc::kInvalidInput, "expected true or false"},
           {"insecure with ca",
            config_with("{server: h, insecure-skip-tls-verify: true, certificate-authority: x}", "{}"),
            Errc::kInvalidInput, "contradicts"},
           {"exec", config_with(good, "{exec: {command: x}}"), Errc::kUnsupported, "users[u].user.exec"},
           {"auth-provider", config_with(good, "{auth-provider: {name: x}}"), Errc::kUnsupported,
            "auth-provider"},
           {"password", config_with(good, "{username: x, password: y}"), Errc::kUnsupported, "username"},
           {"impersonation", config_with(good, "{as: root}"), Errc::kUnsupported, "users[u].user.as"},
           {"certificate without key", config_with(good, "{client-certificate: x}"), Errc::kInvalidInput,
            "users[u].user.client-key: missing"},
           {"user is a text", config_with(good, "x"), Errc::kInvalidInput, "expected fields"},
       }) {
    SCOPED_TRACE(c.about);
    const Result<ClientConfig> got = parse_kubeconfig(c.text, "f1", "/d");
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, c.code) << got.error().text;
    EXPECT_NE(got.error().text.find(c.says), std::string::npos) << got.error().text;
    EXPECT_NE(got.error().text.find("f1"), std::string::npos) << got.error().text;
  }
  EXPECT_EQ(load_kubeconfig("/does/not/exist").error().code, Errc::kNotFound);
}

TEST(InCluster, BuildsTheAddress) {
  struct Case {
    const char* host;
    const char* port;
    const char* want;  // nullptr: refused
  };
  for (const Case& c : std::initializer_list<Case>{{"10.96.0.1", "443", "10.96.0.1"},
                                                   {"fd00::1", "6443", "fd00::1"},
                                                   {"[fd00::1]", "6443", "fd00::1"},
                                                   {"", "443", nullptr},
                                                   {"h", "", nullptr},
                                                   {"h", "x", nullptr}}) {
    SCOPED_TRACE(c.host);
    const Result<ClientConfig> got = load_in_cluster(
        [&](const char* name) { return std::string_view(name).ends_with("HOST") ? c.host : c.port; }, "/sa");
    ASSERT_EQ(got.ok(), c.want != nullptr);
    if (!got.ok()) continue;
    EXPECT_EQ(got->endpoint.host, c.want);
    EXPECT_TRUE(got->endpoint.tls);
    EXPECT_EQ(got->token.file, "/sa/token");
    EXPECT_EQ(got->ca.file, "/sa/ca.crt");
  }
}

// Checklist 78, the file part.
TEST(Credentials, TokenFileIsReadAgainWithinAMinuteAndAfterReload) {
  const TempDir dir;
  dir.write("token", "one\n");
  ClientConfig config;
  config.token.file = dir.path() / "token";
  Credentials credentials(config);
  const auto t0 = Credentials::Clock::now();
  EXPECT_EQ(*credentials.token(t0), "one");
  dir.write("token", "two\n");
  EXPECT_EQ(*credentials.token(t0 + seconds(30)), "one");
  EXPECT_EQ(*credentials.token(t0 + seconds(60)), "two");
  dir.write("token", "three");
  credentials.reload();
  EXPECT_EQ(*credentials.token(t0 + seconds(61)), "three");
  dir.write("token", "");  // half-way through a rotation: the last good one stays
  EXPECT_EQ(*credentials.token(t0 + seconds(200)), "three");
  dir.write("token", "bad\r\nX-Evil: 1");
  EXPECT_EQ(*credentials.token(t0 + seconds(300)), "three");
}

TEST(Credentials, TokenErrorsComeOutWhenThereNeverWasOne) {
  ClientConfig config;
  config.token.file = "/does/not/exist";
  EXPECT_FALSE(Credentials(config).token().ok());
  config.token.text = "spare";
  EXPECT_EQ(*Credentials(config).token(), "spare");
  EXPECT_EQ(*Credentials(ClientConfig{}).token(), "");
}

TEST(Credentials, CertificateFilesAreReadAgain) {
  const TempDir dir;
  dir.write("ca", "A");
  ClientConfig config;
  config.ca.file = dir.path() / "ca";
  Credentials credentials(config);
  const auto t0 = Credentials::Clock::now();
  EXPECT_EQ(credentials.tls(t0)->ca, "A");
  dir.write("ca", "B");
  EXPECT_EQ(credentials.tls(t0 + seconds(1))->ca, "A");
  credentials.reload();
  EXPECT_EQ(credentials.tls(t0 + seconds(2))->ca, "B");
  std::filesystem::remove(dir.path() / "ca");
  EXPECT_EQ(credentials.tls(t0 + seconds(100))->ca, "B");
  config.ca.file = dir.path() / "gone";
  EXPECT_FALSE(Credentials(config).tls().ok());
}

}  // namespace
}  // namespace dracpu::kube
