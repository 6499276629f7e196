// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/identity.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <future>
#include <memory>
#include <utility>

#include "kube/json_reader.h"
#include "kubelet/server.h"
#include "upgrade/lists.h"
#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;

constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kConflict = 409;

// Cluster-wide objects of rights and admission, which may name a driver.
struct RightsKind {
  std::string_view kind;
  std::string_view path;
};
constexpr std::array<RightsKind, 4> kRights = {{
    {"ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"},
    {"ClusterRoleBinding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"},
    {"ValidatingAdmissionPolicy", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"},
    {"ValidatingAdmissionPolicyBinding",
     "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"},
}};

Status check_name(std::string_view flag, const std::string& name) {
  kubelet::ServerOptions options;
  options.driver_name = name;
  Status s = kubelet::check_options(options);
  if (s.ok()) return s;
  return std::move(s).error().while_doing(fmt::format("flag {}", flag));
}

bool refers_to(const ClaimObject& object, const std::string& device_class) {
  const auto is_it = [&](const kube::DeviceRequest& r) { return r.device_class == device_class; };
  return std::any_of(object.claim.requests.begin(), object.claim.requests.end(),
                     [&](const kube::ClaimRequest& r) {
                       return (r.exactly && is_it(*r.exactly)) ||
                              std::any_of(r.first_available.begin(), r.first_available.end(), is_it);
                     });
}

class Planner {
 public:
  Planner(const IdentityFacts& read, const Move& move)
      : facts_(read.facts), rights_(read.rights), from_(move.from), to_(move.to) {
    out_.move = move;
  }

  IdentityPlan run() {
    look_for_holders();
    look_for_drivers();
    look_at_slices();
    look_at_class();
    look_for_names();
    out_.not_checked = facts_.not_checked;
    return std::move(out_);
  }

 private:
  void look_for_holders() {
    if (facts_.incomplete.contains("ResourceClaim"))
      out_.refusals.emplace_back(
          "not every ResourceClaim could be read, so one may hold a device of the old name");
    for (const ClaimObject& object : facts_.claims) {
      if (object.is_template || !object.claim.allocation) continue;
      std::string devices;
      for (const kube::AllocationResult& r : object.claim.allocation->results) {
        if (r.driver == from_)
          devices += fmt::format("{}{}/{}", devices.empty() ? "" : ", ", r.pool, r.device);
      }
      if (devices.empty()) continue;
      out_.refusals.push_back(fmt::format(
          "{} holds {} of \"{}\"; end its pods, then: kubectl -n {} delete resourceclaim {} (a claim of a "
          "template goes with its pod)",
          object.object(), devices, from_, object.claim.ns, object.claim.name));
    }
  }

  void look_for_drivers() {
    if (!facts_.drivers || facts_.incomplete.contains("DaemonSet")) {
      out_.still_old.emplace_back("not every DaemonSet could be read, so one may run under the old name");
    }
    if (!facts_.drivers) return;
    for (const DriverSet& set : *facts_.drivers) {
      if (set.runs_nowhere) continue;
      if (set.driver_name.empty()) {
        out_.still_old.push_back(fmt::format(
            "{}: its configuration could not be read, so it may run as \"{}\"", set.object(), from_));
      } else if (set.driver_name == from_) {
        out_.still_old.push_back(
            fmt::format("{} runs as \"{}\"; {}", set.object(), from_, how_to_rename(set)));
      } else if (set.is_rolling) {
        out_.still_old.push_back(
            fmt::format("{} is not rolled out, so some pods may still run as \"{}\"; wait for: kubectl -n {} "
                        "rollout status daemonset/{}",
                        set.object(), from_, set.ns, set.name));
      }
    }
  }

  std::string how_to_rename(const DriverSet& set) const {
    if (!set.is_this_driver) return "upgrade it to this driver first, it cannot have another name";
    if (set.release.empty()) return fmt::format("set publish.driverName: {} in its configuration", to_);
    return fmt::format(
        "helm upgrade {} CHART -n {} -f VALUES --set driverConfig.publish.driverName={} --wait", set.release,
        set.ns, to_);
  }

  void look_at_slices() {
    if (facts_.incomplete.contains(from_ + " ResourceSlice"))
      out_.refusals.push_back(fmt::format("not every ResourceSlice of \"{}\" could be read", from_));
    for (const SliceObject& slice : facts_.slices) {
      if (slice.driver != from_) continue;
      add("resourceslices", slice.object(), slice.name, slice.revision);
    }
  }

  void add(std::string_view resource, const std::string& object, const std::string& name,
           const Revision& revision) {
    Leftover& left = out_.leftovers.emplace_back();
    left.object = object;
    left.path = fmt::format("/apis/resource.k8s.io/v1/{}/{}", resource, kube::url_escape(name));
    left.right = fmt::format("delete on {} (resource.k8s.io)", resource);
    left.revision = revision;
  }

  void look_at_class() {
    if (facts_.incomplete.contains("DeviceClass"))
      out_.kept.push_back(fmt::format("DeviceClass {}: the DeviceClasses could not all be read", from_));
    for (const ClassObject& c : facts_.classes) {
      if (c.name != from_) continue;
      std::string users;
      for (const ClaimObject& object : facts_.claims) {
        if (refers_to(object, from_))
          users += fmt::format("{}{}", users.empty() ? "" : ", ", object.object());
      }
      const bool is_known = !facts_.incomplete.contains("ResourceClaim") &&
                            !facts_.incomplete.contains("ResourceClaimTemplate");
      if (!users.empty()) {
        out_.kept.push_back(fmt::format("{}: named by {}", c.object(), users));
      } else if (!is_known) {
        out_.kept.push_back(
            fmt::format("{}: not every claim and template could be read, so one may name it", c.object()));
      } else {
        add("deviceclasses", c.object(), c.name, c.revision);
      }
    }
  }

  // What still says the old name and is not ours to change.
  void look_for_names() {
    Findings findings;
    check_old_name(facts_, from_, to_, findings);
    sort_findings(findings);
    for (const Finding& f : findings) {
      const bool goes = std::any_of(out_.leftovers.begin(), out_.leftovers.end(),
                                    [&f](const Leftover& l) { return l.object == f.object; });
      if (!goes) out_.by_hand.push_back(fmt::format("{}: {}; {}", f.object, f.message, f.fix));
    }
    for (const std::string& object : rights_)
      out_.by_hand.push_back(fmt::format("{}: it names \"{}\"; write \"{}\" there", object, from_, to_));
  }

  const Facts& facts_;
  const std::vector<std::string>& rights_;
  const std::string& from_;
  const std::string& to_;
  IdentityPlan out_;
};

Result<kube::Response> ask(kube::HttpClient& client, kube::Request request, std::chrono::milliseconds limit) {
  auto promise = std::make_shared<std::promise<Result<kube::Response>>>();
  std::future<Result<kube::Response>> answer = promise->get_future();
  client.send(std::move(request), Deadline::after(limit),
              [promise](Result<kube::Response> got) { promise->set_value(std::move(got)); });
  return answer.get();
}

void remove(kube::HttpClient& client, Leftover& left, std::chrono::milliseconds limit) {
  const json::object options{
      {"apiVersion", "v1"},
      {"kind", "DeleteOptions"},
      {"preconditions", {{"uid", left.revision.uid}, {"resourceVersion", left.revision.version}}}};
  const Result<kube::Response> answer =
      ask(client, {kube::Method::kDelete, left.path, json::serialize(options)}, limit);
  if (answer.ok() && answer->ok()) {
    left.outcome = Leftover::Outcome::kRemoved;
  } else if (answer.ok() && answer->status == kNotFound) {
    left.outcome = Leftover::Outcome::kGone;
  } else {
    left.outcome = Leftover::Outcome::kFailed;
    left.why = answer.ok() ? kube::status_error(*answer).text : answer.error().text;
    if (answer.ok() && answer->status == kForbidden) left.why += "; you need the right: " + left.right;
    if (answer.ok() && answer->status == kConflict)
      left.why += "; it changed meanwhile: look who wrote it, then run this again";
  }
}

}  // namespace

bool IdentityPlan::has_failed() const {
  return std::any_of(leftovers.begin(), leftovers.end(),
                     [](const Leftover& l) { return l.outcome == Leftover::Outcome::kFailed; });
}

Status check_move(const Move& move) {
  if (Status s = check_name("--from", move.from); !s.ok()) return s;
  if (Status s = check_name("--to", move.to); !s.ok()) return s;
  if (move.from != move.to) return ok_status();
  return make_error(Errc::kInvalidInput, "--from and --to are both \"{}\"; there is nothing to move",
                    move.to);
}

Result<IdentityFacts> read_identity(kube::HttpClient& client, const Move& move, ReadOptions options) {
  options.kubelets = false;
  options.node.clear();
  options.names = {move.from, move.to};
  Result<Facts> facts = read_cluster(client, {}, options);
  if (!facts.ok()) return std::move(facts).error();
  IdentityFacts out;
  out.facts = *std::move(facts);
  Lists lists(client, options.limit, options.page);
  for (const RightsKind& rights : kRights) {
    std::vector<std::string> found;
    const Status s = lists.each(
        std::string(rights.path),
        [&](const json::object& item) {
          if (!mentions(json::serialize(item), move.from)) return;
          kube::JsonErrors ignored;
          const std::string name = kube::JsonObject(ignored, &item, "").object("metadata").text("name");
          found.push_back(fmt::format("{} {}", rights.kind, name));
        },
        [&found] { found.clear(); });
    if (!s.ok()) out.facts.not_checked.push_back({fmt::format("{} objects", rights.kind), s.error().text});
    for (std::string& object : found) out.rights.push_back(std::move(object));
  }
  return out;
}

IdentityPlan plan_identity(const IdentityFacts& read, const Move& move) { return Planner(read, move).run(); }

void carry_out(kube::HttpClient& client, IdentityPlan& plan, std::chrono::milliseconds limit) {
  plan.is_applied = true;
  for (Leftover& left : plan.leftovers) remove(client, left, limit);
}

}  // namespace dracpu::upgrade
