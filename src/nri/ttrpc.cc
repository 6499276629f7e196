// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/ttrpc.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "nri/mux.h"
#include "ttrpc.pb.h"

namespace dracpu::nri {
namespace {

bool parse(google::protobuf::MessageLite& message, std::string_view data) {
  return data.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()) &&
         message.ParseFromArray(data.data(), static_cast<int>(data.size()));
}

std::string with_header(std::uint32_t stream, MessageType type, const google::protobuf::MessageLite& body,
                        std::size_t size) {
  std::string out(kMessageHeaderSize, '\0');
  put_header(out.data(), {static_cast<std::uint32_t>(size), stream, static_cast<std::uint8_t>(type), 0});
  out.reserve(kMessageHeaderSize + size);
  body.AppendToString(&out);
  return out;
}

std::string too_long_text(std::size_t size) {
  return fmt::format("message length {} exceed maximum message size of {}", size, kMaxSendData);
}

}  // namespace

void put_header(char* at, const MessageHeader& header) {
  put_u32(at, header.length);
  put_u32(at + 4, header.stream);
  at[8] = static_cast<char>(header.type);
  at[9] = static_cast<char>(header.flags);
}

MessageHeader get_header(const char* at) {
  return {get_u32(at), get_u32(at + 4), static_cast<std::uint8_t>(at[8]), static_cast<std::uint8_t>(at[9])};
}

bool MessageAssembler::keeps() const {
  const auto type = static_cast<MessageType>(header_.type);
  return type == MessageType::kRequest || type == MessageType::kResponse;
}

void MessageAssembler::begin() {
  header_ = get_header(header_bytes_.data());
  header_bytes_.clear();
  left_ = header_.length;
  in_data_ = true;
  data_ = std::string();
  if (keeps() && left_ <= max_data_) data_.reserve(left_);
}

void MessageAssembler::feed(std::string_view piece, const Sink& sink) {
  while (!piece.empty()) {
    if (!in_data_) {
      const std::size_t take = std::min(piece.size(), kMessageHeaderSize - header_bytes_.size());
      header_bytes_.append(piece.substr(0, take));
      piece.remove_prefix(take);
      if (header_bytes_.size() < kMessageHeaderSize) return;
      begin();
    }
    const std::size_t take = std::min(piece.size(), left_);
    if (keeps() && header_.length <= max_data_) data_.append(piece.substr(0, take));
    piece.remove_prefix(take);
    left_ -= take;
    if (left_ > 0) return;
    in_data_ = false;
    if (!keeps()) continue;
    sink(Message{header_.stream, static_cast<MessageType>(header_.type), std::exchange(data_, {}),
                 header_.length});
  }
}

Result<Request> parse_request(std::string_view data) {
  dracpu::ttrpc::Request wire;
  if (!parse(wire, data)) {
    return make_error(Errc::kInvalidInput, "{} bytes are not a ttrpc request", data.size());
  }
  return Request{std::move(*wire.mutable_service()), std::move(*wire.mutable_method()),
                 std::move(*wire.mutable_payload()), wire.timeout_nano()};
}

Result<Response> parse_response(std::string_view data) {
  dracpu::ttrpc::Response wire;
  if (!parse(wire, data)) {
    return make_error(Errc::kInvalidInput, "{} bytes are not a ttrpc response", data.size());
  }
  Response out;
  out.code = wire.status().code();
  if (wire.has_status()) out.text = std::move(*wire.mutable_status()->mutable_message());
  out.payload = std::move(*wire.mutable_payload());
  return out;
}

Result<std::string> encode_request(std::uint32_t stream, const Request& request) {
  dracpu::ttrpc::Request wire;
  wire.set_service(valid_utf8(request.service));
  wire.set_method(valid_utf8(request.method));
  wire.set_payload(request.payload);
  wire.set_timeout_nano(request.timeout_nano);
  const std::size_t size = wire.ByteSizeLong();
  if (size > kMaxSendData) return Error{Errc::kInvalidInput, too_long_text(size)};
  return with_header(stream, MessageType::kRequest, wire, size);
}

std::string encode_response(std::uint32_t stream, std::string_view payload) {
  const std::size_t size = response_size(payload.size());
  if (size > kMaxSendData) return encode_error(stream, Code::kResourceExhausted, too_long_text(size));
  dracpu::ttrpc::Response wire;
  wire.set_payload(payload.data(), payload.size());
  return with_header(stream, MessageType::kResponse, wire, size);
}

std::string encode_error(std::uint32_t stream, Code code, std::string_view text) {
  // A text of megabytes is a fault elsewhere; it ends up in pod events, so a few lines are enough.
  constexpr std::size_t kMaxText = 4096;
  dracpu::ttrpc::Response wire;
  wire.mutable_status()->set_code(static_cast<std::int32_t>(code));
  wire.mutable_status()->set_message(valid_utf8(text.substr(0, kMaxText)));
  return with_header(stream, MessageType::kResponse, wire, wire.ByteSizeLong());
}

std::size_t response_size(std::size_t payload) {
  if (payload == 0) return 0;
  std::size_t length_bytes = 1;
  for (std::size_t rest = payload >> 7U; rest != 0; rest >>= 7U) ++length_bytes;
  return 1 + length_bytes + payload;
}

std::optional<std::string_view> StreamIdCheck::refuse(std::uint32_t stream) {
  if (stream % 2 == 0) return "StreamID must be odd for client initiated streams";
  if (stream <= last_) return "StreamID cannot be re-used and must increment";
  last_ = stream;
  return std::nullopt;
}

}  // namespace dracpu::nri
