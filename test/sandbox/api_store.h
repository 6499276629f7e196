// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The API server without its transport: objects, versions, watches, and the rules for what a driver may send.
//
// Serves  nodes, resourceslices (generateName, resourceVersion conflicts, delete preconditions, field
//         selectors), resourceclaims with /status, events, /version, the discovery of resource.k8s.io/v1.
// Callers The driver may do what RULINGS 22 lists and gets 403 for anything else; the sandbox may do all.
// Left out Paging (lists come whole, as the server's cache gives them), streaming lists (refused with 422,
// which
//         a server may do), server-side apply.
// Threads Any.

#ifndef DRACPU_SANDBOX_API_STORE_H_
#define DRACPU_SANDBOX_API_STORE_H_

#include <boost/json/object.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slice_rules.h"

namespace dracpu::sandbox {

enum class Caller { kNobody, kDriver, kSandbox };

struct ApiReply {
  unsigned status = 200;
  std::string body;
  std::string warning;  // Warning header, empty for none
};

// Path and decoded query of a request target.
struct ApiTarget {
  std::string path;
  std::map<std::string, std::string> query;
};
ApiTarget parse_target(std::string_view target);

class ApiStore {
 public:
  explicit ApiStore(ServerProfile profile = {}) : profile_(profile) {}

  // One request that is no watch.
  ApiReply handle(Caller caller, std::string_view method, std::string_view target, std::string_view body);

  struct Watch {
    std::string plural;
    std::map<std::string, std::string> fields;  // field selector
    std::uint64_t version = 0;
    bool bookmarks = false;
  };
  // A watch to read from, or the answer that refuses it.
  struct WatchStart {
    std::optional<Watch> watch;
    ApiReply refusal;
  };
  WatchStart watch(Caller caller, std::string_view target);
  // Event lines since the last call, waiting at most `wait` for the first. `ended`: send them and close.
  struct Events {
    std::string lines;
    bool ended = false;
  };
  Events next(Watch& watch, std::chrono::milliseconds wait);
  std::string bookmark(const Watch& watch) const;

  // Forgets the history: open watches end with an ERROR event 410, older versions get 410.
  void expire_history();
  // Wakes every reader of next().
  void interrupt();

  // Shortcuts for the sandbox itself.
  std::vector<boost::json::object> list(const std::string& plural) const;
  std::optional<boost::json::object> get(const std::string& plural, const std::string& key) const;
  ApiReply create(const std::string& path, const boost::json::object& object);
  std::uint64_t version() const;

 private:
  struct Event {
    std::uint64_t version;
    std::string plural;
    std::string type;
    boost::json::object object;
    boost::json::object before;  // MODIFIED: to see what left a selector
  };
  struct Route {
    std::string plural;
    std::string kind;
    std::string api_version;
    std::string ns;
    std::string name;
    std::string subresource;
    bool known = false;
  };
  using Objects = std::map<std::string, boost::json::object>;

  static Route route(const std::string& path);
  static bool allowed(Caller caller, std::string_view verb, const Route& route);
  static std::string key(const Route& route, const std::string& name);
  ApiReply discovery(const std::string& path) const;
  ApiReply get_or_list(const Route& route, const ApiTarget& target) const;
  ApiReply post(const Route& route, std::string_view body);
  ApiReply put(const Route& route, std::string_view body);
  ApiReply remove(const Route& route, std::string_view body);
  // What storing this would break, or nothing. Drops fields of closed gates.
  std::optional<ApiReply> admit(const Route& route, boost::json::object& object, std::string& warning) const;
  void record(std::string type, const Route& route, boost::json::object before, boost::json::object& object);

  const ServerProfile profile_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Objects> objects_;  // plural → namespace/name → object
  std::deque<Event> history_;
  std::uint64_t version_ = 100;
  std::uint64_t oldest_ = 100;  // watches from before this version get 410
};

// A Status object, as every error answer carries it.
ApiReply api_error(unsigned code, std::string_view reason, std::string_view message,
                   const std::vector<Cause>& causes = {});

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_API_STORE_H_
