// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The only file that knows yaml-cpp. Its exceptions end here.

#include <yaml-cpp/yaml.h>

#include <array>

#include "base/escape.h"
#include "kube/credentials.h"

namespace dracpu::kube {
namespace {

std::optional<std::string> base64_decode(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  int padding = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    std::uint32_t v = 0;
    if (c >= 'A' && c <= 'Z') {
      v = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      v = static_cast<std::uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      v = static_cast<std::uint32_t>(c - '0') + 52;
    } else if (c == '+') {
      v = 62;
    } else if (c == '/') {
      v = 63;
    } else {
      return std::nullopt;
    }
    if (padding > 0) return std::nullopt;
    bits = (bits << 6U | v) & 0xFFFFFFU;
    if (++count % 4 != 1)
      out += static_cast<char>(bits >> (6U - 2U * static_cast<unsigned>((count - 1) % 4)) & 0xFFU);
  }
  if ((count + padding) % 4 != 0 || padding > 2) return std::nullopt;
  return out;
}

// Reads fields and remembers the first thing that was wrong.
class Reader {
 public:
  Reader(std::string_view file, const std::filesystem::path& folder) : file_(file), folder_(folder) {}

  void fail(Errc code, const YAML::Node& at, std::string_view field, std::string_view why) {
    if (error_) return;
    const int line = at.IsDefined() ? at.Mark().line + 1 : 0;
    error_ = line > 0 ? make_error(code, "kubeconfig \"{}\" line {}: {}: {}", file_, line, field, why)
                      : make_error(code, "kubeconfig \"{}\": {}: {}", file_, field, why);
  }

  // A child of a map; undefined when absent, null or when there is no map.
  YAML::Node child(const YAML::Node& map, const char* key) {
    if (!map.IsDefined() || !map.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node found = map[key];
    if (found.IsDefined() && !found.IsNull()) return found;
    return YAML::Node(YAML::NodeType::Undefined);
  }

  std::string text(const YAML::Node& map, const char* key, const std::string& where) {
    const YAML::Node node = child(map, key);
    if (!node.IsDefined()) return "";
    if (!node.IsScalar()) {
      fail(Errc::kInvalidInput, node, where + "." + key, "expected a text");
      return "";
    }
    return node.Scalar();
  }

  bool flag(const YAML::Node& map, const char* key, const std::string& where) {
    const std::string value = text(map, key, where);
    if (value == "true") return true;
    if (!value.empty() && value != "false") {
      fail(Errc::kInvalidInput, child(map, key), where + "." + key, "expected true or false");
    }
    return false;
  }

  void refuse(const YAML::Node& map, const char* key, const std::string& where) {
    const YAML::Node node = child(map, key);
    if (!node.IsDefined() || (node.IsScalar() && node.Scalar().empty())) return;
    if ((node.IsSequence() || node.IsMap()) && node.size() == 0) return;
    fail(Errc::kUnsupported, node, where + "." + key, "not supported, use a token or a client certificate");
  }

  // `key`-data in base64, or the file named by `key`.
  TextSource source(const YAML::Node& map, const char* key, const std::string& where) {
    TextSource out;
    const std::string data_key = std::string(key) + "-data";
    const std::string data = text(map, data_key.c_str(), where);
    if (!data.empty()) {
      std::optional<std::string> decoded = base64_decode(data);
      if (!decoded || decoded->empty()) {
        fail(Errc::kInvalidInput, child(map, data_key.c_str()), where + "." + data_key, "expected base64");
      } else {
        out.text = *std::move(decoded);
      }
      return out;
    }
    out.file = path(text(map, key, where));
    return out;
  }

  std::filesystem::path path(const std::string& name) const {
    if (name.empty()) return {};
    return std::filesystem::path(name).is_absolute() ? std::filesystem::path(name) : folder_ / name;
  }

  // The `kind` member of the entry called `name` in a list such as `clusters`.
  YAML::Node entry(const YAML::Node& root, const char* list, const char* kind, const std::string& name) {
    const YAML::Node nodes = child(root, list);
    if (nodes.IsDefined() && !nodes.IsSequence()) {
      fail(Errc::kInvalidInput, nodes, list, "expected a list");
      return YAML::Node(YAML::NodeType::Undefined);
    }
    if (nodes.IsDefined()) {
      for (const YAML::Node& node : nodes) {
        if (!node.IsMap() || text(node, "name", list) != name) continue;
        const YAML::Node found = child(node, kind);
        if (found.IsDefined() && !found.IsMap()) {
          fail(Errc::kInvalidInput, found, fmt::format("{}[{}].{}", list, name, kind), "expected fields");
        }
        return found;
      }
    }
    fail(Errc::kInvalidInput, YAML::Node(YAML::NodeType::Undefined), list,
         fmt::format("no entry {}", in_quotes(name)));
    return YAML::Node(YAML::NodeType::Undefined);
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  std::string_view file_;
  const std::filesystem::path& folder_;
  std::optional<Error> error_;
};

void read_cluster(Reader& r, const YAML::Node& cluster, const std::string& where, ClientConfig& out) {
  r.refuse(cluster, "proxy-url", where);
  const std::string server = r.text(cluster, "server", where);
  if (server.empty()) {
    r.fail(Errc::kInvalidInput, cluster, where + ".server", "missing");
  } else if (Result<Endpoint> endpoint = parse_server_url(server); endpoint.ok()) {
    out.endpoint = *std::move(endpoint);
  } else {
    r.fail(Errc::kInvalidInput, r.child(cluster, "server"), where + ".server", endpoint.error().text);
  }
  out.ca = r.source(cluster, "certificate-authority", where);
  out.skip_verify = r.flag(cluster, "insecure-skip-tls-verify", where);
  out.tls_server_name = r.text(cluster, "tls-server-name", where);
  if (out.skip_verify && out.ca.given()) {
    r.fail(Errc::kInvalidInput, r.child(cluster, "insecure-skip-tls-verify"),
           where + ".insecure-skip-tls-verify", "contradicts certificate-authority");
  }
}

void read_user(Reader& r, const YAML::Node& user, const std::string& where, ClientConfig& out) {
  for (const char* key :
       {"exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra"}) {
    r.refuse(user, key, where);
  }
  out.client_cert = r.source(user, "client-certificate", where);
  out.client_key = r.source(user, "client-key", where);
  if (out.client_cert.given() != out.client_key.given()) {
    r.fail(Errc::kInvalidInput, user,
           where + (out.client_cert.given() ? ".client-key" : ".client-certificate"),
           "missing, certificate and key come together");
  }
  out.token.text = r.text(user, "token", where);
  out.token.file = r.path(r.text(user, "tokenFile", where));
}

}  // namespace

Result<ClientConfig> parse_kubeconfig(std::string_view text, std::string_view name,
                                      const std::filesystem::path& folder) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    Reader r(name, folder);
    if (root.IsNull())
      r.fail(Errc::kInvalidInput, YAML::Node(YAML::NodeType::Undefined), "file", "it is empty");
    if (!root.IsMap())
      r.fail(Errc::kInvalidInput, root, "file", "no mapping with clusters, users and contexts");
    ClientConfig out;
    const std::string current = r.text(root, "current-context", "file");
    if (current.empty())
      r.fail(Errc::kInvalidInput, YAML::Node(YAML::NodeType::Undefined), "current-context",
             "missing; \"kubectl config use-context NAME\" sets it");
    if (r.error()) return *r.error();
    const YAML::Node context = r.entry(root, "contexts", "context", current);
    const std::string where = fmt::format("contexts[{}].context", current);
    const std::string cluster = r.text(context, "cluster", where);
    const std::string user = r.text(context, "user", where);
    if (cluster.empty()) r.fail(Errc::kInvalidInput, context, where + ".cluster", "missing");
    if (r.error()) return *r.error();
    read_cluster(r, r.entry(root, "clusters", "cluster", cluster),
                 fmt::format("clusters[{}].cluster", cluster), out);
    // A context without a user is anonymous, as for a proxy on the same machine.
    if (!user.empty() && !r.error()) {
      read_user(r, r.entry(root, "users", "user", user), fmt::format("users[{}].user", user), out);
    }
    if (r.error()) return *r.error();
    return out;
  } catch (const std::exception& e) {
    return make_error(Errc::kInvalidInput, "kubeconfig \"{}\": {}", name, e.what());
  }
}

}  // namespace dracpu::kube
