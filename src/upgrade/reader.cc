// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/reader.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "kube/json_reader.h"
#include "memory/types.h"
#include "upgrade/lists.h"
#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;

constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
constexpr int kNotFoundStatus = 404;
constexpr std::size_t kAtOnce = 8;        // questions to kubelets, as many as the client has connections
constexpr std::size_t kSlicesAPage = 50;  // some have 128 devices
constexpr std::size_t kNodesAPage = 100;  // they list their images

constexpr const char* kDra = "/apis/resource.k8s.io/v1";
constexpr const char* kUsualName = "dra.cpu";

class Reader {
 public:
  Reader(kube::HttpClient& client, const Given& given, const ReadOptions& options)
      : client_(client), given_(given), options_(options), lists_(client, options.limit, options.page) {}

  Result<Facts> run() {
    if (Status s = read_version(); !s.ok()) return std::move(s).error();
    if (Status s = check_node(); !s.ok()) return std::move(s).error();
    read_api_versions();
    read_drivers();
    if (serves_dra()) {
      read_dra();
    } else {
      skip("ResourceClaims, ResourceClaimTemplates, DeviceClasses and ResourceSlices",
           "resource.k8s.io/v1 is not served");
      facts_.incomplete.insert({"ResourceClaim", "ResourceClaimTemplate", "DeviceClass"});
    }
    if (wants_memory()) read_pods();
    if (options_.kubelets) read_kubelets();
    return std::move(facts_);
  }

 private:
  void skip(std::string what, std::string why) {
    facts_.not_checked.push_back({std::move(what), std::move(why)});
  }
  void done(std::string what, std::string detail = "") {
    facts_.checked.push_back({std::move(what), std::move(detail)});
  }

  // The first question: it tells whether there is anybody to ask.
  Status read_version() {
    Result<kube::Response> answer = lists_.get("/version");
    if (!answer.ok()) return std::move(answer).error().while_doing("asking the API server for its version");
    if (answer->status == kUnauthorized) {
      return make_error(Errc::kInvalidInput,
                        "the API server refuses these credentials ({}); try: kubectl auth whoami",
                        kube::status_error(*answer).text);
    }
    if (!answer->ok()) {
      skip("Kubernetes version", kube::status_error(*answer).text);
      return ok_status();
    }
    const Result<json::value> body = kube::parse_json_object(answer->body);
    if (!body.ok()) {
      return make_error(Errc::kUnavailable,
                        "what answers /version is no API server ({}); check the address in the kubeconfig",
                        body.error().text);
    }
    kube::JsonErrors errors;
    const kube::JsonObject version(errors, &body->get_object(), "");
    facts_.server_version = version.text("gitVersion");
    if (facts_.server_version.empty())
      facts_.server_version = fmt::format("v{}.{}", version.text("major"), version.text("minor"));
    if (minor_of(facts_.server_version)) {
      done("Kubernetes version", facts_.server_version);
    } else {
      skip("Kubernetes version", fmt::format("\"{}\" is no version", facts_.server_version));
    }
    return ok_status();
  }

  Status check_node() {
    if (options_.node.empty()) return ok_status();
    Result<kube::Response> answer = lists_.get("/api/v1/nodes/" + kube::url_escape(options_.node));
    if (!answer.ok()) return std::move(answer).error().while_doing("reading the node");
    if (answer->status == kNotFoundStatus) {
      return make_error(Errc::kInvalidInput,
                        "flag --node: there is no node \"{}\" in this cluster; see: kubectl get nodes",
                        options_.node);
    }
    if (!answer->ok()) {
      skip("Node " + options_.node, kube::status_error(*answer).text);
      facts_.nodes.push_back({options_.node, std::nullopt, true});
      return ok_status();
    }
    const Result<json::value> body = kube::parse_json_object(answer->body);
    if (body.ok()) keep(read_node(body->get_object()), "Node " + options_.node, facts_.nodes);
    for (NodeObject& node : facts_.nodes) node.name = options_.node;
    return ok_status();
  }

  void read_api_versions() {
    Result<kube::Response> answer = lists_.get("/apis/resource.k8s.io");
    if (!answer.ok()) return skip("versions of resource.k8s.io", answer.error().text);
    if (answer->status == kNotFoundStatus) {
      facts_.api_versions.emplace();
      return done("versions of resource.k8s.io", "none");
    }
    if (!answer->ok()) return skip("versions of resource.k8s.io", kube::status_error(*answer).text);
    const Result<json::value> body = kube::parse_json_object(answer->body);
    if (!body.ok()) return skip("versions of resource.k8s.io", body.error().text);
    kube::JsonErrors errors;
    std::vector<std::string> versions;
    for (const kube::JsonObject& v : kube::JsonObject(errors, &body->get_object(), "").objects("versions"))
      versions.push_back(v.text("version"));
    if (errors.first()) return skip("versions of resource.k8s.io", errors.first()->text);
    std::string list;
    for (const std::string& v : versions) list += (list.empty() ? "" : " ") + v;
    facts_.api_versions = std::move(versions);
    done("versions of resource.k8s.io", list);
  }

  bool serves_dra() const {
    if (!facts_.api_versions) return true;  // not known: the lists will tell
    return std::find(facts_.api_versions->begin(), facts_.api_versions->end(), "v1") !=
           facts_.api_versions->end();
  }

  template <typename T>
  void keep(Result<T> read, const std::string& object, std::vector<T>& out) {
    if (read.ok()) {
      out.push_back(*std::move(read));
    } else {
      skip(object, read.error().text);
    }
  }

  static std::string name_in(const json::object& item) {
    kube::JsonErrors errors;
    const kube::JsonObject metadata = kube::JsonObject(errors, &item, "").object("metadata");
    const std::string ns = metadata.text("namespace");
    return ns.empty() ? metadata.text("name") : ns + "/" + metadata.text("name");
  }

  // All objects of a list, and how many; false if it could not be read.
  template <typename T>
  bool read_list(Lists& lists, const std::string& kind, const std::string& path,
                 Result<T> (*read)(const json::object&), std::vector<T>& out) {
    std::vector<T> got;
    std::vector<NotChecked> odd;
    const Status s = lists.each(
        path,
        [&](const json::object& item) {
          Result<T> one = read(item);
          if (one.ok()) {
            got.push_back(*std::move(one));
          } else {
            odd.push_back({fmt::format("{} {}", kind, name_in(item)), one.error().text});
          }
        },
        [&] {
          got.clear();
          odd.clear();
        });
    const std::string all = kind + (kind.ends_with("s") ? "es" : "s");
    if (!s.ok() || !odd.empty()) facts_.incomplete.insert(kind);
    if (!s.ok()) {
      skip(all, s.error().text);
      return false;
    }
    done(all, fmt::format("{}", got.size()));
    for (NotChecked& n : odd) facts_.not_checked.push_back(std::move(n));
    for (T& one : got) out.push_back(std::move(one));
    return true;
  }

  void read_drivers() {
    std::vector<std::optional<DriverSet>> sets;
    if (!read_list(lists_, "DaemonSet", "/apis/apps/v1/daemonsets", &read_driver_set, sets)) return;
    facts_.drivers.emplace();
    const auto ours = std::count_if(sets.begin(), sets.end(),
                                    [](const auto& set) { return set && !set->is_memory_driver; });
    facts_.checked.back().detail += fmt::format(", {} of the driver", ours);
    for (std::optional<DriverSet>& set : sets) {
      if (!set) continue;
      if (set->is_memory_driver) {
        facts_.memory_drivers.push_back(*std::move(set));
        continue;
      }
      set->driver_name = read_config(*set);
      facts_.drivers->push_back(*std::move(set));
    }
  }

  // What the driver of a DaemonSet is told: its flags, and the file that they name. Gives the driver's name.
  std::string read_config(const DriverSet& set) {
    const auto not_known = [&](std::string why) {
      skip("configuration of " + set.object(), std::move(why));
      // A forerunner cannot have another name.
      return std::string(set.is_this_driver ? "" : kUsualName);
    };
    const Result<config::Flags> flags = options_.read_flags(set.words);
    if (!flags.ok()) return not_known(flags.error().text);
    StatedConfig stated;
    stated.object = set.object();
    stated.flags = *flags;
    if (flags->config && !flags->config->empty()) {
      const std::optional<ConfigMapKey> at = config_map_of(set, *flags->config);
      if (!at)
        return not_known(
            fmt::format("file \"{}\" comes from no ConfigMap; give it with --config", *flags->config));
      stated.object = fmt::format("ConfigMap {}/{}", set.ns, at->name);
      Result<std::string> text = read_config_map(set.ns, *at);
      if (!text.ok()) return not_known(std::move(text).error().while_doing(stated.object).text);
      stated.file = config::FileText{at->key, *std::move(text)};
    }
    done("configuration of " + set.object(), stated.object);
    std::string name = read_settings(stated).driver_name;
    facts_.configs.push_back(std::move(stated));
    return name;
  }

  Result<std::string> read_config_map(const std::string& ns, const ConfigMapKey& at) {
    const Result<json::value> body = lists_.object(
        fmt::format("/api/v1/namespaces/{}/configmaps/{}", kube::url_escape(ns), kube::url_escape(at.name)));
    if (!body.ok()) return body.error();
    kube::JsonErrors errors;
    const kube::JsonObject data = kube::JsonObject(errors, &body->get_object(), "").object("data");
    const bool is_there = data.find(at.key) != nullptr;
    std::string text = data.text(at.key);
    if (errors.first()) return *errors.first();
    if (!is_there) return make_error(Errc::kNotFound, "it has no key \"{}\"", at.key);
    return text;
  }

  void read_dra() {
    const std::string root = kDra;
    read_list(lists_, "DeviceClass", root + "/deviceclasses", &read_class, facts_.classes);
    read_list(lists_, "ResourceClaim", root + "/resourceclaims", &read_claim, facts_.claims);
    read_list(lists_, "ResourceClaimTemplate", root + "/resourceclaimtemplates", &read_template,
              facts_.claims);
    Lists lists(client_, options_.limit, std::min(options_.page, kSlicesAPage));
    std::vector<std::string> names = driver_names(given_, facts_.configs);
    for (const std::string& name : options_.names) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    if (wants_memory()) names.emplace_back(memory::kDriverName);
    for (const std::string& driver : names) {
      std::string selector = "spec.driver=" + driver;
      if (!options_.node.empty()) selector += ",spec.nodeName=" + options_.node;
      read_list(lists, fmt::format("{} ResourceSlice", driver),
                root + "/resourceslices?fieldSelector=" + kube::url_escape(selector), &read_slice,
                facts_.slices);
    }
  }

  // Pods and memory slices matter only then.
  bool wants_memory() const { return options_.kubelets && target_of(given_, facts_).has_memory(); }

  void read_pods() {
    std::string selector = "status.phase!=Succeeded,status.phase!=Failed";
    if (!options_.node.empty()) selector += ",spec.nodeName=" + options_.node;
    read_list(lists_, "Pod", "/api/v1/pods?fieldSelector=" + kube::url_escape(selector), &read_pod,
              facts_.pods);
    std::erase_if(facts_.pods, [](const PodObject& pod) { return pod.claims.empty(); });
  }

  void read_kubelets() {
    if (options_.node.empty()) {
      Lists lists(client_, options_.limit, std::min(options_.page, kNodesAPage));
      if (!read_list(lists, "Node", "/api/v1/nodes", &read_node, facts_.nodes)) {
        facts_.refused_kubelets.push_back({"", "the nodes could not be listed; name one with --node"});
        return;
      }
    }
    std::vector<const NodeObject*> nodes;
    for (const NodeObject& node : facts_.nodes) {
      if (node.is_linux) nodes.push_back(&node);
    }
    // One alone first: rights that lack for one lack for all.
    std::size_t done_count = 0;
    bool is_allowed = true;
    for (std::size_t i = 0; i < nodes.size() && is_allowed;) {
      const std::size_t end = std::min(nodes.size(), i == 0 ? 1 : i + kAtOnce);
      std::vector<std::string> paths;
      for (std::size_t k = i; k < end; ++k)
        paths.push_back(fmt::format("/api/v1/nodes/{}/proxy/configz", kube::url_escape(nodes[k]->name)));
      const std::vector<Result<kube::Response>> answers = lists_.get_all(paths, options_.kubelet_limit);
      for (std::size_t k = i; k < end; ++k) {
        const Result<kube::Response>& answer = answers[k - i];
        if (i == 0 && answer.ok() && answer->status == kForbidden) is_allowed = false;
        if (read_kubelet(*nodes[k], answer)) ++done_count;
      }
      i = end;
    }
    if (!is_allowed) {
      const std::string why = facts_.refused_kubelets.front().why;  // the list grows
      for (std::size_t k = 1; k < nodes.size(); ++k) refuse(*nodes[k], why);
    }
    if (done_count > 0) done("kubelet configurations", fmt::format("{}", done_count));
  }

  bool read_kubelet(const NodeObject& node, const Result<kube::Response>& answer) {
    if (!answer.ok()) return refuse(node, answer.error().text);
    if (!answer->ok()) return refuse(node, kube::status_error(*answer).text);
    const Result<json::value> body = kube::parse_json_object(answer->body);
    if (!body.ok()) return refuse(node, body.error().text);
    Result<Kubelet> kubelet = read_configz(body->get_object());
    if (!kubelet.ok()) return refuse(node, kubelet.error().text);
    kubelet->node = node.name;
    kubelet->minor = node.kubelet_minor;
    facts_.kubelets.push_back(*std::move(kubelet));
    return true;
  }

  bool refuse(const NodeObject& node, const std::string& why) {
    facts_.refused_kubelets.push_back({node.name, why});
    skip("kubelet configuration of " + node.object(), why);
    return false;
  }

  kube::HttpClient& client_;
  const Given& given_;
  const ReadOptions& options_;
  Lists lists_;
  Facts facts_;
};

}  // namespace

Result<Facts> read_cluster(kube::HttpClient& client, const Given& given, const ReadOptions& options) {
  return Reader(client, given, options).run();
}

}  // namespace dracpu::upgrade
