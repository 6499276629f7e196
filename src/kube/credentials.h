// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Where the API server is and how to prove who we are (spec kubelet-dra-wire 7.5 and 7.6).
//
// Input    A kubeconfig file (YAML or JSON), or the environment and files of a pod's service account.
//          Relative file names count from the kubeconfig's folder.
// Refused  exec, auth-provider, proxy-url, username/password and impersonation: running without them would
//          act as somebody else than the file says.
// Rotation Files are read again at most a minute after they were replaced, and at once after reload():
//          the client calls it after a 401 and after a failed TLS handshake.
// Errors   kInvalidInput names the file and the field; kNotFound names a file that is not there;
//          kUnsupported names the refused field.
// Threads  load functions: any. A Credentials object: one thread at a time.

#ifndef DRACPU_KUBE_CREDENTIALS_H_
#define DRACPU_KUBE_CREDENTIALS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/result.h"

namespace dracpu::kube {

struct Endpoint {
  bool tls = true;
  std::string host;  // name or address, IPv6 without brackets
  std::uint16_t port = 443;
  std::string path_prefix;  // "" or "/like/this", never with a slash at the end

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "https://[::1]:6443/prefix/" and the like; http:// too. kInvalidInput otherwise.
Result<Endpoint> parse_server_url(std::string_view url);

// Text given in place, or a file that is read when needed. Text wins.
struct TextSource {
  std::string text;
  std::filesystem::path file;

  bool given() const { return !text.empty() || !file.empty(); }
  Result<std::string> read() const;
};

struct ClientConfig {
  Endpoint endpoint;
  TextSource ca;           // PEM; none: the system's roots
  TextSource client_cert;  // PEM
  TextSource client_key;   // PEM
  TextSource token;        // a file wins over text here (tokenFile takes precedence)
  bool skip_verify = false;
  std::string tls_server_name;  // name to expect in the certificate instead of the host
};

// An explicit kubeconfig, or, when `path` is empty, the pod's service account.
Result<ClientConfig> load_client_config(const std::filesystem::path& kubeconfig);

Result<ClientConfig> load_kubeconfig(const std::filesystem::path& path);
// The same from text; relative names count from `folder`, and errors name `name`.
Result<ClientConfig> parse_kubeconfig(std::string_view text, std::string_view name,
                                      const std::filesystem::path& folder);

// Reads a variable; empty when unset. getenv in the product.
using Environment = std::function<std::string(const char*)>;
std::string process_environment(const char* name);

inline constexpr std::string_view kServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount";
Result<ClientConfig> load_in_cluster(const Environment& environment = process_environment,
                                     const std::filesystem::path& folder = kServiceAccountDir);

// What a connection needs for TLS, as PEM text.
struct TlsMaterial {
  std::string ca;
  std::string cert;
  std::string key;
  friend bool operator==(const TlsMaterial&, const TlsMaterial&) = default;
};

// The current secrets of a ClientConfig.
class Credentials {
 public:
  using Clock = Deadline::Clock;
  explicit Credentials(ClientConfig config) : config_(std::move(config)) {}

  const ClientConfig& config() const { return config_; }

  // "" when there is no token. On a read error the last good token is kept; the error comes back only when
  // there has never been one.
  Result<std::string> token(Clock::time_point now = Clock::now());
  Result<TlsMaterial> tls(Clock::time_point now = Clock::now());
  // Forget what was read: the next use reads the files again.
  void reload();

 private:
  ClientConfig config_;
  std::optional<std::string> token_;
  std::optional<TlsMaterial> tls_;
  Clock::time_point token_until_{};
  Clock::time_point tls_until_{};
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_CREDENTIALS_H_
