// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// ttrpc: unary calls over one byte stream. Headers, the request and response envelope, cutting a stream into
// messages, and the rules for stream ids. The same for both ends; no sockets here.
//
// Source  spec nri-wire section 2. A message is ten bytes of header (length and stream id, 32-bit big-endian,
//         type, flags) and data, a protobuf Request or Response.
// Sizes   Never more than 4 MiB of data is encoded. Up to 16 MiB is accepted, because old runtimes send one
//         oversized Synchronize; beyond that the bytes are consumed and the message arrives marked.
// Errors  kInvalidInput when data is not what its type says.
// Threads Values; an assembler belongs to the thread that reads.

#ifndef DRACPU_NRI_TTRPC_H_
#define DRACPU_NRI_TTRPC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dracpu::nri {

inline constexpr std::size_t kMessageHeaderSize = 10;
inline constexpr std::size_t kMaxSendData = 4'194'304;      // spec 2.2
inline constexpr std::size_t kMaxReceiveData = 16'777'216;  // spec 2.2, our own choice

enum class MessageType : std::uint8_t { kRequest = 1, kResponse = 2, kData = 3 };

// Status codes of google.rpc that either side uses (spec 2.5).
enum class Code : std::int32_t {
  kOk = 0,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

struct MessageHeader {
  std::uint32_t length = 0;  // of the data
  std::uint32_t stream = 0;
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

// `at` has ten bytes.
void put_header(char* at, const MessageHeader& header);
MessageHeader get_header(const char* at);

struct Message {
  std::uint32_t stream = 0;
  MessageType type = MessageType::kRequest;
  std::string data;
  std::size_t announced =
      0;  // data length in the header; more than data.size() only if it was over the limit
  bool oversized() const { return announced > data.size(); }
};

// Cuts the bytes of one connection into messages. Messages that are neither request nor response are skipped.
class MessageAssembler {
 public:
  using Sink = std::function<void(Message message)>;

  explicit MessageAssembler(std::size_t max_data = kMaxReceiveData) : max_data_(max_data) {}

  // Calls `sink` for every message that became complete; for one over the limit after its last byte.
  void feed(std::string_view piece, const Sink& sink);

 private:
  void begin();
  bool keeps() const;

  std::size_t max_data_;
  std::string header_bytes_;
  MessageHeader header_;
  std::string data_;
  std::size_t left_ = 0;
  bool in_data_ = false;
};

struct Request {
  std::string service;
  std::string method;
  std::string payload;
  std::int64_t timeout_nano = 0;  // 0: no limit
};

struct Response {
  std::int32_t code = 0;  // 0: success
  std::string text;
  std::string payload;
};

Result<Request> parse_request(std::string_view data);
Result<Response> parse_response(std::string_view data);

// Whole messages, header included, ready for send_message(). Text that is not UTF-8 is repaired. What would
// be over 4 MiB becomes kInvalidInput, and for a response the code 8 of spec 2.2.
Result<std::string> encode_request(std::uint32_t stream, const Request& request);
std::string encode_response(std::uint32_t stream, std::string_view payload);
std::string encode_error(std::uint32_t stream, Code code, std::string_view text);

// Bytes of data that a response with this payload has.
std::size_t response_size(std::size_t payload);

// A server's check of the ids its client chooses: odd and increasing (spec 2.3).
class StreamIdCheck {
 public:
  // The text for an error with code 3, or nothing if the id is good; a good one is remembered.
  std::optional<std::string_view> refuse(std::uint32_t stream);

 private:
  std::uint32_t last_ = 0;
};

// The same text if it is UTF-8, otherwise with "?" for every byte that is not part of it.
std::string valid_utf8(std::string_view text);
bool is_utf8(std::string_view text);

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_TTRPC_H_
