// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The status page: who owns which CPU of this node, whom the driver is connected to, what it refused last.
//
// Output   One HTML document without outside files, valid as XML too; its script is a file of its own, and
// the
//          page says all without it (it then loads itself anew every 10 s). Every text from outside is
//          escaped.
// Security It names pods and containers, so it has a listener of its own, off by default. Nothing can be
//          changed through it, and it holds no secrets.
// Cost     About 0.5 ms and 120 KB for 256 CPUs. On the listener's own thread, never under a lock.
// Threads  Pure; the routes' handlers on the server's thread.

#ifndef DRACPU_AGENT_STATUS_PAGE_H_
#define DRACPU_AGENT_STATUS_PAGE_H_

#include <optional>
#include <string>
#include <string_view>

#include "agent/status_board.h"
#include "observe/http_server.h"

namespace dracpu::agent {

// `asked`: the text of the question "who owns CPU", answered on top if it is there.
std::string status_html(const StatusFacts& facts, std::optional<std::string_view> asked = {});

// The script that brings in changes.
observe::HttpResponse status_script(const observe::HttpRequest& request);

// "/", and what it loads. The board must outlive the server.
void add_status_routes(observe::HttpServer& http, const StatusBoard& board);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_STATUS_PAGE_H_
