// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Prepare and unprepare over the wire. Line numbers are those of spec kubelet-dra-wire section 9.

#include "kubelet/dra_service.h"

#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "kubelet/test_peer.h"

namespace dracpu::kubelet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool eventually(const std::function<bool()>& holds) {
  const Deadline deadline = Deadline::after(seconds(5));
  while (!holds()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

class DraServiceTest : public ServerTest {
 protected:
  std::pair<grpc::Status, dra_v1beta1::NodePrepareResourcesResponse> prepare_beta(const char* uid) {
    grpc::ClientContext context;
    limit(context);
    dra_v1beta1::NodePrepareResourcesRequest request;
    request.add_claims()->set_uid(uid);
    dra_v1beta1::NodePrepareResourcesResponse response;
    const grpc::Status s =
        dra_v1beta1::DRAPlugin::NewStub(dial_dra())->NodePrepareResources(&context, request, &response);
    return {s, response};
  }
  std::pair<grpc::Status, dra_v1::NodeUnprepareResourcesResponse> unprepare(std::vector<std::string> uids) {
    grpc::ClientContext context;
    limit(context);
    dra_v1::NodeUnprepareResourcesRequest request;
    for (const std::string& uid : uids) request.add_claims()->set_uid(uid);
    dra_v1::NodeUnprepareResourcesResponse response;
    const grpc::Status s =
        dra_v1::DRAPlugin::NewStub(dial_dra())->NodeUnprepareResources(&context, request, &response);
    return {s, response};
  }
};

TEST_F(DraServiceTest, PassesClaimsAndDevicesThrough) {
  handler_.on_prepare = [](const std::vector<ClaimRef>& claims, FakeHandler::PrepareDone done) {
    PrepareResults out;
    out.emplace(claims[0].uid,
                std::vector<PreparedDevice>{{{"r1", "r2"}, "pool", "dev-0", {"a/b=c", "d/e=f"}, std::nullopt},
                                            {{}, "pool", "dev-1", {}, "5f1d"}});
    out.emplace(claims[1].uid, std::vector<PreparedDevice>{});  // line 16: none of ours
    done(std::move(out));
  };
  start();
  const auto [status, response] = prepare(dial_dra(), {"u2", "u1"});
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.claims().size(), 2U);
  const auto& first = response.claims().at("u2");
  EXPECT_EQ(first.error(), "");
  ASSERT_EQ(first.devices_size(), 2);
  EXPECT_THAT(first.devices(0).request_names(), ElementsAre("r1", "r2"));
  EXPECT_EQ(first.devices(0).pool_name(), "pool");
  EXPECT_EQ(first.devices(0).device_name(), "dev-0");
  EXPECT_THAT(first.devices(0).cdi_device_ids(), ElementsAre("a/b=c", "d/e=f"));
  EXPECT_FALSE(first.devices(0).has_share_id());  // line 27
  EXPECT_TRUE(first.devices(1).has_share_id());   // line 26
  EXPECT_EQ(first.devices(1).share_id(), "5f1d");
  EXPECT_EQ(response.claims().at("u1").devices_size(), 0);
  EXPECT_EQ(response.claims().at("u1").error(), "");

  ASSERT_EQ(handler_.asked().size(), 1U);
  const std::vector<ClaimRef> asked = handler_.asked()[0].claims;
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].uid, ClaimUid("u2")) << "the request's order";
  EXPECT_EQ(asked[0].ns, "ns");
  EXPECT_EQ(asked[0].name, "name-u2");
}

TEST_F(DraServiceTest, TheOlderVersionHasNoShares) {  // lines 26 and 39
  handler_.on_prepare = [](const std::vector<ClaimRef>& claims, FakeHandler::PrepareDone done) {
    PreparedDevice device = FakeHandler::device_for(claims[0].uid);
    device.share_id = "5f1d";
    PrepareResults out;
    out.emplace(claims[0].uid, std::vector{device});
    done(std::move(out));
  };
  start();
  for (int i = 0; i < 3; ++i) {
    const auto [v1, newer] = prepare(dial_dra(), {"u"});
    const auto [v1beta1, older] = prepare_beta("u");
    ASSERT_TRUE(v1.ok() && v1beta1.ok());
    dra_v1::NodePrepareResourcesResponse without = newer;
    for (auto& device : *(*without.mutable_claims())["u"].mutable_devices()) device.clear_share_id();
    EXPECT_NE(newer.SerializeAsString(), older.SerializeAsString());
    EXPECT_EQ(without.SerializeAsString(), older.SerializeAsString());
  }
}

TEST_F(DraServiceTest, AFaultyClaimFailsAlone) {  // line 20
  handler_.on_prepare = [](const std::vector<ClaimRef>& claims, FakeHandler::PrepareDone done) {
    PrepareResults out = FakeHandler::one_device_each(claims);
    out.insert_or_assign(ClaimUid("bad"), make_error(Errc::kNoCapacity, "asked for 4 CPUs, 2 fit"));
    out.insert_or_assign(ClaimUid("mute"), Error{Errc::kConflict, ""});
    out.insert_or_assign(ClaimUid("dirty"), Error{Errc::kCorrupt, "file says \xff"});
    done(std::move(out));
  };
  start();
  const auto [status, response] = prepare(dial_dra(), {"good", "bad", "mute", "dirty"});
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(response.claims().at("good").devices_size(), 1);
  EXPECT_EQ(response.claims().at("bad").error(), "asked for 4 CPUs, 2 fit");
  EXPECT_EQ(response.claims().at("bad").devices_size(), 0);
  EXPECT_EQ(response.claims().at("mute").error(), "conflict") << "an error is never empty";
  EXPECT_EQ(response.claims().at("dirty").error(), "file says ?") << "one bad byte fails a whole message";
}

TEST_F(DraServiceTest, EveryUidOnceWhateverTheHandlerGives) {
  handler_.on_prepare = [](const std::vector<ClaimRef>&, FakeHandler::PrepareDone done) {
    PrepareResults out;
    out.emplace(ClaimUid("asked"), std::vector<PreparedDevice>{});
    out.emplace(ClaimUid("not-asked"), std::vector<PreparedDevice>{});
    done(std::move(out));
  };
  handler_.on_unprepare = [](const std::vector<ClaimRef>&, FakeHandler::UnprepareDone done) { done({}); };
  start();
  const auto [status, response] = prepare(dial_dra(), {"asked", "forgotten", "asked"});
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(response.claims().size(), 2U);
  EXPECT_EQ(response.claims().at("asked").error(), "");
  EXPECT_THAT(response.claims().at("forgotten").error(), HasSubstr("no result"));
  ASSERT_EQ(handler_.asked()[0].claims.size(), 3U) << "a uid may occur twice";
  const auto [status2, response2] = unprepare({"a", "b"});
  ASSERT_TRUE(status2.ok());
  ASSERT_EQ(response2.claims().size(), 2U);
  EXPECT_THAT(response2.claims().at("b").error(), HasSubstr("no result"));
}

TEST_F(DraServiceTest, UnprepareAnswersEveryUid) {  // line 29, and 32 for the error
  handler_.on_unprepare = [](const std::vector<ClaimRef>&, FakeHandler::UnprepareDone done) {
    UnprepareResults out;
    out.emplace(ClaimUid("gone"), ok_status());
    out.emplace(ClaimUid("stuck"), make_error(Errc::kUnavailable, "remove \"x\": read-only"));
    done(std::move(out));
  };
  start();
  const auto [status, response] = unprepare({"gone", "stuck"});
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(response.claims().size(), 2U);
  EXPECT_EQ(response.claims().at("gone").error(), "");
  EXPECT_EQ(response.claims().at("stuck").error(), "remove \"x\": read-only");
}

TEST_F(DraServiceTest, NoClaimsIsFine) {  // line 36
  start();
  const auto [status, response] = prepare(dial_dra(), {});
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(response.claims().empty());
  const auto [status2, response2] = unprepare({});
  EXPECT_TRUE(status2.ok());
  EXPECT_TRUE(response2.claims().empty());
  EXPECT_TRUE(handler_.asked().empty());
}

TEST_F(DraServiceTest, UnknownFieldsAreIgnored) {  // line 37
  start();
  dra_v1::NodePrepareResourcesRequest request = prepare_request({"u"});
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(99, "tomorrow");
  auto& claim = *request.mutable_claims(0);
  claim.GetReflection()->MutableUnknownFields(&claim)->AddVarint(77, 1);
  grpc::ClientContext context;
  limit(context);
  dra_v1::NodePrepareResourcesResponse response;
  const grpc::Status s =
      dra_v1::DRAPlugin::NewStub(dial_dra())->NodePrepareResources(&context, request, &response);
  ASSERT_TRUE(s.ok()) << s.error_message();
  EXPECT_EQ(response.claims().size(), 1U);
}

TEST_F(DraServiceTest, TheDeadlineTravelsAndIsCapped) {
  start();
  const auto left_after = [this](int client_ms) {
    grpc::ClientContext context;
    if (client_ms > 0) limit(context, client_ms);
    dra_v1::NodePrepareResourcesResponse response;
    EXPECT_TRUE(dra_v1::DRAPlugin::NewStub(dial_dra())
                    ->NodePrepareResources(&context, prepare_request({"u"}), &response)
                    .ok());
    return handler_.asked().back().deadline.left();
  };
  const auto ten = left_after(10000);
  EXPECT_GT(ten, seconds(5));
  EXPECT_LE(ten, seconds(11));                    // the wire form of a timeout is rounded up
  for (const int client_ms : {0, 3600 * 1000}) {  // none, an hour
    const auto left = left_after(client_ms);
    EXPECT_GT(left, seconds(40));
    EXPECT_LE(left, kMaxCallTime);
  }
}

TEST_F(DraServiceTest, CallsRunSideBySide) {
  Mutex mutex;
  std::vector<std::pair<std::vector<ClaimRef>, FakeHandler::PrepareDone>> waiting;
  handler_.on_prepare = [&](const std::vector<ClaimRef>& claims, FakeHandler::PrepareDone done) {
    std::vector<std::pair<std::vector<ClaimRef>, FakeHandler::PrepareDone>> all;
    {
      const Locked lock(mutex);
      waiting.emplace_back(claims, std::move(done));
      if (waiting.size() == 50) all.swap(waiting);  // nobody is answered before all have asked
    }
    for (const auto& [asked, reply] : all) reply(FakeHandler::one_device_each(asked));
  };
  start();
  const auto shared = dial_dra();
  std::atomic<int> good = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back([&, i] {
      const std::string uid = "u" + std::to_string(i);
      const auto [status, response] = prepare(i % 2 == 0 ? shared : dial_dra(), {uid.c_str()}, 20000);
      if (status.ok() && response.claims().size() == 1 && response.claims().count(uid) == 1) ++good;
    });
  }
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(good, 50);
}

TEST_F(DraServiceTest, ACallerThatLeavesHarmsNothing) {  // line 40
  Mutex mutex;
  std::vector<FakeHandler::PrepareDone> kept;
  std::atomic<bool> keep = true;
  handler_.on_prepare = [&](const std::vector<ClaimRef>& claims, FakeHandler::PrepareDone done) {
    if (!keep) return done(FakeHandler::one_device_each(claims));
    const Locked lock(mutex);
    kept.push_back(std::move(done));
  };
  start();
  EXPECT_EQ(prepare(dial_dra(), {"u"}, 100).first.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  grpc::ClientContext context;
  std::thread canceller([&] {
    EXPECT_TRUE(eventually([&] {
      const Locked lock(mutex);
      return kept.size() == 2;
    }));
    context.TryCancel();
  });
  dra_v1::NodePrepareResourcesResponse response;
  EXPECT_EQ(dra_v1::DRAPlugin::NewStub(dial_dra())
                ->NodePrepareResources(&context, prepare_request({"u"}), &response)
                .error_code(),
            grpc::StatusCode::CANCELLED);
  canceller.join();
  keep = false;
  EXPECT_TRUE(prepare(dial_dra(), {"u"}).first.ok()) << "the retry";
  for (const auto& done : kept)
    done({{ClaimUid("u"), std::vector<PreparedDevice>{}}});  // too late, and harmless
  server_->stop();
  for (const auto& done : kept) done({});  // even now
}

TEST_F(DraServiceTest, AHandlerThatFailsFailsTheCallOnly) {
  handler_.on_prepare = [](const std::vector<ClaimRef>& claims, const FakeHandler::PrepareDone& done) {
    if (claims[0].uid == ClaimUid("throws")) throw std::runtime_error("boom");
    if (claims[0].uid == ClaimUid("drops")) return;
    done(FakeHandler::one_device_each(claims));
    done({});  // the second answer has no effect
  };
  start();
  const grpc::Status thrown = prepare(dial_dra(), {"throws"}).first;
  EXPECT_FALSE(thrown.ok());
  EXPECT_NE(thrown.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  const grpc::Status dropped = prepare(dial_dra(), {"drops"}).first;
  EXPECT_EQ(dropped.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(dropped.error_message(), HasSubstr("dropped"));
  const auto [status, response] = prepare(dial_dra(), {"twice"});
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(response.claims().at("twice").devices_size(), 1);
}

TEST_F(DraServiceTest, MessagesUpToFourMiB) {
  start();
  const auto send = [this](std::size_t bytes) {
    dra_v1::NodePrepareResourcesRequest request = prepare_request({"u"});
    request.mutable_claims(0)->set_name(std::string(bytes, 'n'));
    grpc::ClientContext context;
    limit(context);
    dra_v1::NodePrepareResourcesResponse response;
    return dra_v1::DRAPlugin::NewStub(dial_dra())->NodePrepareResources(&context, request, &response);
  };
  EXPECT_TRUE(send((4U << 20U) - 100).ok());
  EXPECT_EQ(send((4U << 20U) + 100).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(send(10).ok());
}

TEST_F(DraServiceTest, StopLetsARunningCallEnd) {  // line 8
  std::atomic<bool> asked = false;
  std::thread worker;
  handler_.on_prepare = [&](const std::vector<ClaimRef>& claims, FakeHandler::PrepareDone done) {
    worker = std::thread([claims, done = std::move(done), this] {
      // The registration socket goes first: only then is the stop under way.
      EXPECT_TRUE(eventually([this] { return !std::filesystem::exists(registration_path()); }));
      EXPECT_TRUE(std::filesystem::exists(dra_path()));
      done(FakeHandler::one_device_each(claims));
    });
    asked = true;
  };
  start();
  grpc::Status status;
  std::thread client([&] { status = prepare(dial_dra(), {"u"}).first; });
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  server_->stop();
  client.join();
  worker.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(DraServiceTest, StopWaitsNoLongerThanItsGrace) {
  FakeHandler::PrepareDone kept;
  std::atomic<bool> asked = false;
  handler_.on_prepare = [&](const std::vector<ClaimRef>&, FakeHandler::PrepareDone done) {
    kept = std::move(done);
    asked = true;
  };
  start();
  grpc::Status status;
  std::thread client([&] { status = prepare(dial_dra(), {"u"}).first; });
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  const auto t0 = std::chrono::steady_clock::now();
  server_->stop(milliseconds(200));
  const auto took = std::chrono::steady_clock::now() - t0;
  client.join();
  EXPECT_GE(took, milliseconds(190));
  EXPECT_LT(took, milliseconds(1500));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server_.reset();
  kept({});
}

}  // namespace
}  // namespace dracpu::kubelet
