// SPDX-License-Identifier: Apache-2.0
// Where layers go, over devices that are only numbers here.
#include "model/layer_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/byte_text.h"
#include "base/errors.h"
#include "checkpoint_files.h"
#include "model/pass_memory.h"
#include "model/transformer.h"
#include "network/usable_rooms.h"

namespace headscope::model {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Device kFirst = CudaDevice(0), kSecond = CudaDevice(1);

std::vector<Device> Placed(const ModelSizes& sizes, const std::vector<DeviceRoom>& rooms) {
  return PlaceLayers(sizes, rooms);
}

TEST(LayerPlacement, OneGpuThatHasRoomForAllTakesAll) {
  const ModelSizes sizes{{10, 10, 10}, 5, 2};  // 37
  EXPECT_EQ(Placed(sizes, {{kFirst, 37}, {kSecond, 100}}), std::vector<Device>(3, kFirst));
  EXPECT_EQ(Placed(sizes, {{kFirst, 36}, {kSecond, 100}}), std::vector<Device>(3, kSecond)) << "nothing moves";
  EXPECT_EQ(Placed(sizes, {{kFirst, 36}, {kCpu, 37}}), (std::vector<Device>{kFirst, kFirst, kCpu})) << "GPUs first";
  EXPECT_EQ(Placed(sizes, {{kFirst, 27}, {kSecond, 12}, {kCpu, 100}}), (std::vector<Device>{kFirst, kFirst, kSecond}));
  EXPECT_EQ(Placed(sizes, {{kFirst, 16}, {kCpu, 37}}), std::vector<Device>(3, kCpu)) << "no room for a layer";
}

TEST(LayerPlacement, LayersGoOnWhereTheNextDeviceHasRoom) {
  const ModelSizes sizes{{10, 10, 10, 10}, 5, 2};
  EXPECT_EQ(Placed(sizes, {{kFirst, 27}, {kSecond, 12}, {kCpu, 12}}),
            (std::vector<Device>{kFirst, kFirst, kSecond, kCpu}));
  EXPECT_EQ(Placed(sizes, {{kFirst, 26}, {kSecond, 22}, {kCpu, 12}}),
            (std::vector<Device>{kFirst, kSecond, kSecond, kCpu}))
      << "the ends are with the first layer, a pass takes its part everywhere";
  EXPECT_EQ(Placed(sizes, {{kFirst, 16}, {kSecond, 27}, {kCpu, 22}}),
            (std::vector<Device>{kSecond, kSecond, kCpu, kCpu}))
      << "a device without room for ends, pass and a layer is passed over";
}

TEST(LayerPlacement, TooLittleRoomIsToldWithWhatThereIs) {
  const ModelSizes sizes{{int64_t{3} << 30, int64_t{3} << 30}, int64_t{1} << 30, 0};
  EXPECT_THAT(
      [&] {
        Placed(sizes, {{kFirst, int64_t{4} << 30}, {kCpu, int64_t{2} << 30}});
      },
      ThrowsMessage<DeviceError>(
          ::testing::AllOf(HasSubstr("device auto"), HasSubstr("7.0 GiB"), HasSubstr("cuda:0 4.0 GiB, cpu 2.0 GiB"))));
  EXPECT_THROW(Placed(sizes, {}), DeviceError);
}

// Whatever the numbers: every layer has a device, in the devices' order, none of which holds more than it has room for.
TEST(LayerPlacement, NoDeviceHoldsMoreThanItHasRoomFor) {
  std::mt19937 random(5);
  int placed_over_several = 0, refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const auto draw = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint32_t>(most + 1)); };
    ModelSizes sizes;
    sizes.ends = draw(20);
    sizes.pass = draw(10);
    for (int64_t layer = draw(7); layer >= 0; --layer) sizes.layers.push_back(draw(30));
    // The later layers of every other model read the keys of the first two.
    std::vector<int64_t> keys = {draw(10), draw(10)};
    for (size_t layer = 0; trial % 2 == 0 && layer < sizes.layers.size(); ++layer) {
      const auto source = static_cast<int32_t>(layer < 3 ? -1 : draw(2) - 1);
      sizes.shared.push_back({source, source < 0 ? 0 : keys[static_cast<size_t>(source)]});
    }
    std::vector<DeviceRoom> rooms;
    for (int32_t number = 0; number < 4; ++number) rooms.push_back({number < 3 ? CudaDevice(number) : kCpu, draw(90)});
    std::vector<Device> placed;
    try {
      placed = PlaceLayers(sizes, rooms);
    } catch (const DeviceError&) {
      ++refused;
      int64_t all = sizes.ends + sizes.pass;
      for (const int64_t layer : sizes.layers) all += layer;
      for (const DeviceRoom& room : rooms) ASSERT_LT(room.free_bytes, all);
      continue;
    }
    ASSERT_EQ(placed.size(), sizes.layers.size());
    size_t at = 0;
    for (const DeviceRoom& room : rooms) {
      int64_t held = 0;
      const size_t begin = at;
      std::set<int32_t> copied;
      for (; at < placed.size() && placed[at] == room.device; ++at) {
        held += sizes.layers[at];
        const int32_t source = sizes.shared.empty() ? -1 : sizes.shared[at].source;
        if (source >= 0 && static_cast<size_t>(source) < begin && copied.insert(source).second)
          held += sizes.shared[at].bytes;
      }
      if (at == begin) continue;
      ASSERT_LE(held + sizes.pass + (begin == 0 ? sizes.ends : 0), room.free_bytes);
    }
    ASSERT_EQ(at, placed.size()) << "a device's layers lie one behind the other, in the devices' order";
    placed_over_several += placed.front() == placed.back() ? 0 : 1;
  }
  EXPECT_GT(placed_over_several, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(LayerPlacement, ADeviceKeepsOneCopyOfTheKeysThatItsLayersShare) {
  ModelSizes sizes{{10, 10, 10, 10}, 5, 2};
  sizes.shared = {{}, {}, {0, 4}, {0, 4}};
  EXPECT_EQ(Placed(sizes, {{kFirst, 47}}), std::vector<Device>(4, kFirst)) << "none where all lies together";
  EXPECT_EQ(Placed(sizes, {{kFirst, 27}, {kSecond, 26}}), (std::vector<Device>{kFirst, kFirst, kSecond, kSecond}));
  EXPECT_THROW(Placed(sizes, {{kFirst, 27}, {kSecond, 25}}), DeviceError);
  EXPECT_EQ(Placed(sizes, {{kFirst, 27}, {kSecond, 25}, {kCpu, 16}}),
            (std::vector<Device>{kFirst, kFirst, kSecond, kCpu}))
      << "each of the two has one";
  sizes.shared[3] = {1, 3};
  EXPECT_THROW(Placed(sizes, {{kFirst, 27}, {kSecond, 28}}), DeviceError) << "of two layers";
  EXPECT_EQ(Placed(sizes, {{kFirst, 27}, {kSecond, 29}}), (std::vector<Device>{kFirst, kFirst, kSecond, kSecond}));
}

TEST(LayerPlacement, SharedKeysAreCountedOnceForEachOtherDevice) {
  ModelConfig config = ReadModelConfig(ReferenceModel());
  ASSERT_EQ(config.num_layers, 10);
  Checkpoint checkpoint(ReferenceModel());
  const int64_t keys = int64_t{2} * 1000 * config.num_kv_heads * 2 * config.head_dim;
  const int64_t own = SizesOf(&checkpoint, config, 2, 1000, 100).layers[5];
  for (const size_t layer : {5, 6, 7, 9}) config.layers[layer].kv_layer = 2;
  const ModelSizes sizes = SizesOf(&checkpoint, config, 2, 1000, 100);
  const int64_t unread = int64_t{2} * config.hidden_size * config.num_kv_heads * 2 * config.head_dim;
  EXPECT_EQ(sizes.layers[5], own - keys - unread) << "nor is there what makes them";
  EXPECT_EQ(sizes.shared[4].source, -1);
  EXPECT_EQ(sizes.shared[5].source, 2);
  EXPECT_EQ(sizes.shared[5].bytes, keys);
  const auto copied = [&](const std::vector<Device>& devices) { return CopiedKeyBytes(config, devices, 2, 1000); };
  std::vector<Device> devices(10, kFirst);
  EXPECT_EQ(copied({}), 0);
  EXPECT_EQ(copied(devices), 0);
  std::fill(devices.begin() + 4, devices.end(), kSecond);
  EXPECT_EQ(copied(devices), keys);
  std::fill(devices.begin() + 6, devices.end(), kCpu);
  EXPECT_EQ(copied(devices), 2 * keys);
}

TEST(LayerPlacement, SizesAreThoseOfTheWeightsAndTheCache) {
  const ModelConfig config = ReadModelConfig(ReferenceModel());
  Checkpoint checkpoint(ReferenceModel());
  const ModelSizes sizes = SizesOf(&checkpoint, config, 2, 1000, 100);
  ASSERT_EQ(sizes.layers.size(), static_cast<size_t>(config.num_layers));
  const int64_t cache = int64_t{2} * 1000 * config.num_kv_heads * 2 * config.head_dim;
  int64_t all = sizes.ends;
  for (const int64_t layer : sizes.layers) all += layer - cache;
  EXPECT_EQ(all, 2 * checkpoint.NumParameters());
  const int64_t hidden = config.hidden_size, q = int64_t{config.num_qo_heads} * config.head_dim,
                kv = int64_t{config.num_kv_heads} * config.head_dim;
  const int64_t weights = hidden * (2 * q + 2 * kv) + 3 * hidden * config.intermediate_size + 2 * hidden;
  for (const int64_t layer : sizes.layers) EXPECT_EQ(layer - cache, 2 * weights);
  EXPECT_EQ(sizes.ends, 2 * (hidden * config.vocabulary_size + hidden)) << "tied tables and the last norm";
  EXPECT_EQ(ReadCheckpointSummary(ReferenceModel(), /*with_hash=*/false).layer_numbers,
            std::vector<int64_t>(sizes.layers.size(), weights));
  EXPECT_GE(SizesOf(&checkpoint, config, 2, 100000, 50000).pass, 40 * sizes.pass / 100);
}

TEST(LayerPlacement, LayersAboveTheLastThatIsRunTakeNothing) {
  ModelConfig config = ReadModelConfig(ReferenceModel());
  Checkpoint checkpoint(ReferenceModel());
  for (const size_t layer : {5, 6, 7, 9}) config.layers[layer].kv_layer = 2;
  const ModelSizes all = SizesOf(&checkpoint, config, 2, 1000, 100),
                   run = SizesOf(&checkpoint, config, 2, 1000, 100, {}, 5);
  const int64_t keys = int64_t{2} * 1000 * config.num_kv_heads * 2 * config.head_dim;
  ASSERT_EQ(run.layers.size(), 6U);
  for (size_t layer = 0; layer < run.layers.size(); ++layer) {
    EXPECT_EQ(all.layers[layer], run.layers[layer]) << layer;
    EXPECT_EQ(run.shared[layer].source, layer == 5 ? 2 : -1) << layer;
  }
  EXPECT_EQ(run.ends, all.ends) << "a head that is the embeddings stays";
  EXPECT_EQ(Placed(run, {{kFirst, int64_t{1} << 40}}), std::vector<Device>(6, kFirst));
  std::vector<Device> devices(10, kFirst);
  std::fill(devices.begin() + 6, devices.end(), kSecond);
  EXPECT_EQ(CopiedKeyBytes(config, devices, 2, 1000), keys);
  EXPECT_EQ(CopiedKeyBytes(config, std::span(devices).first(6), 2, 1000, 5), 0) << "no layer reads them there";
  EXPECT_EQ(CopiedKeyBytes(config, std::span(devices).first(7), 2, 1000, 6), keys);
  config.layers[8].soft_cap = 30;
  EXPECT_GT(PassBytes(config, 2, 512, 4096), PassBytes(config, 2, 512, 4096, {}, 5));
  config.inner_sizes.assign(10, 1 << 10);
  const double narrow = PassBytes(config, 2, 512, 4096, {}, 5);
  config.inner_sizes[6] = 1 << 20;
  EXPECT_EQ(PassBytes(config, 2, 512, 4096, {}, 5), narrow);
  EXPECT_GT(PassBytes(config, 2, 512, 4096, {}, 6), 2 * narrow);
}

TEST(PassMemory, APromptOnAGpuIsFedInAsFewPassesAsItsMemoryLets) {
  const ModelConfig config = ReadModelConfig(ReferenceModel());
  constexpr int64_t kGiB = int64_t{1} << 30, kPrompt = 16'368;
  EXPECT_EQ(LongPassTokens(config, 2, kPrompt, kGiB, 0), 16'384) << "a small model's prompt is one pass";
  EXPECT_EQ(LongPassTokens(config, 2, 700, kGiB, 0), kPassTokens);
  for (const int64_t most : {int64_t{0}, int64_t{40} << 20, int64_t{100} << 20, kGiB}) {
    const int64_t rows = LongPassTokens(config, 2, 131'072, most, 0);
    EXPECT_GE(rows, kPassTokens);
    EXPECT_TRUE(rows == kPassTokens || PassBytes(config, 2, rows, 131'072) <= static_cast<double>(most)) << most;
    EXPECT_TRUE(rows >= 131'072 || PassBytes(config, 2, 2 * rows, 131'072) > static_cast<double>(most)) << most;
  }
  EXPECT_EQ(LongPassTokens(config, 2, kPrompt, kGiB, 12'288), 4096) << "50 MB of a layer";
  EXPECT_EQ(LongPassTokens(config, 2, kPrompt, kGiB, int64_t{1} << 20), kPassTokens);
  EXPECT_EQ(MostPassBytes(int64_t{100} << 30), kGiB);
  EXPECT_EQ(MostPassBytes(3 * kGiB), kGiB / 2) << "a quarter of what libraries leave";
  EXPECT_EQ(MostPassBytes(-kGiB), 0);
  EXPECT_EQ(CacheBytes(config, 2, 100, {}),
            200 * int64_t{config.num_layers} * 2 * config.num_kv_heads * config.head_dim);
}

// Its numbers may be others, so it is in memory beside the embeddings.
TEST(LayerPlacement, AHeadBesideTiedEmbeddingsIsCounted) {
  const std::string folder = HEADSCOPE_BINARY_DIR "/oracle/model/llama_own_head";
  const ModelConfig config = ReadModelConfig(folder);
  ASSERT_TRUE(config.tied_embeddings);
  const int64_t head = int64_t{config.vocabulary_size} * config.embedding_size;
  EXPECT_EQ(ReadCheckpointSummary(folder, /*with_hash=*/false).head_beside_embeddings, head);
  Checkpoint with(folder), without(folder);
  EXPECT_EQ(
      SizesOf(&with, config, 2, 64, 64).ends - SizesOf(&without, config, 2, 64, 64, {}, config.num_layers - 1).ends,
      2 * head);
}

// With a head of its own.
TEST(LayerPlacement, WithoutLogitsThereIsNoHead) {
  const std::string folder = HEADSCOPE_BINARY_DIR "/oracle/model/gpt_neox";
  const ModelConfig config = ReadModelConfig(folder);
  ASSERT_FALSE(config.tied_embeddings);
  ASSERT_GT(config.num_layers, 1);
  Checkpoint checkpoint(folder);
  const int64_t head = checkpoint.NumbersUnder("embed_out.weight");
  ASSERT_EQ(head, int64_t{config.vocabulary_size} * config.hidden_size);
  const auto ends = [&](std::optional<int32_t> last_layer) {
    return SizesOf(&checkpoint, config, 2, 100, 10, {}, last_layer).ends;
  };
  EXPECT_EQ(ends({}) - ends(config.num_layers - 1), 2 * head) << "where all layers run, too";
  EXPECT_EQ(ends(config.num_layers - 1), ends(0));
}

// Layers that predict further tokens, towers for images, masks, keys that no layer reads: all of them were counted.
TEST(LayerPlacement, WhatNothingReadsTakesNothing) {
  for (const char* name : {"glm4_moe_lite_as_published", "gemma3_with_images", "gpt_neox_old_spelling", "gemma4",
                           "gpt_oss_mxfp4", "llama_gqa"}) {
    const std::string folder = HEADSCOPE_BINARY_DIR "/oracle/model/" + std::string(name);
    const ModelConfig config = ReadModelConfig(folder);
    const CheckpointSummary summary = ReadCheckpointSummary(folder, /*with_hash=*/false);
    Progress last;
    OpenTransformer(folder, {.dtype = ElementType::kFloat32}, [&](const Progress& progress) { last = progress; });
    EXPECT_EQ(last.done, last.total) << name;
    // Packed numbers are half a byte each, the others of these checkpoints fp32.
    const double packed = std::string(name) == "gpt_oss_mxfp4" ? 3.0 * 4 * 3 * 64 * 32 * (1 + 1.0 / 16) : 0;
    EXPECT_EQ(4 * (static_cast<double>(summary.used_numbers) - packed) + packed / 2, static_cast<double>(last.done))
        << name;
    Checkpoint checkpoint(folder);
    const ModelSizes sizes = SizesOf(&checkpoint, config, 1, 0, 1);
    EXPECT_EQ(std::accumulate(sizes.layers.begin(), sizes.layers.end(), sizes.ends), summary.used_numbers) << name;
    const bool has_unused = std::string(name) != "llama_gqa" && packed == 0;
    EXPECT_EQ(summary.used_numbers < summary.num_parameters, has_unused) << name;
  }
}

TEST(LayerPlacement, ABrokenGpuIsPassedOver) {
  const auto [rooms, passed_over] = UsableRooms(4, [](int32_t ordinal) -> int64_t {
    if (ordinal == 0 || ordinal == 2) throw std::runtime_error("uncorrectable ECC error");
    return ordinal == 1 ? 100 : -5;
  });
  ASSERT_EQ(rooms.size(), 2U);
  EXPECT_EQ(rooms[0].device, CudaDevice(1));
  EXPECT_EQ(rooms[0].free_bytes, 100);
  EXPECT_EQ(rooms[1].device, CudaDevice(3));
  EXPECT_EQ(rooms[1].free_bytes, 0) << "less than the libraries take";
  EXPECT_EQ(Placed({{10, 10}, 5, 2}, rooms), std::vector<Device>(2, CudaDevice(1)));
  EXPECT_EQ(PassedOverText(passed_over),
            "cuda:0 is not used: uncorrectable ECC error; cuda:2 is not used: uncorrectable ECC error");
}

TEST(LayerPlacement, WhereCudaDoesNotStartTheCpuTakesAll) {
  const auto all = UsableRooms(2, [](int32_t) -> int64_t { throw std::runtime_error("CUDA unknown error"); });
  EXPECT_TRUE(all.rooms.empty());
  EXPECT_EQ(PassedOverText(all.passed_over),
            "cuda:0 is not used: CUDA unknown error; cuda:1 is not used: CUDA unknown error");
}

TEST(LayerPlacement, AGpuWithTooLittleMemoryIsNamed) {
  const auto said = [](const ModelSizes& sizes, const std::vector<DeviceRoom>& rooms) {
    return PassedOverText(TooSmall(sizes, rooms, Placed(sizes, rooms)));
  };
  const int64_t mib = int64_t{1} << 20;
  const ModelSizes sizes = {{100 * mib, 100 * mib, 100 * mib}, 50 * mib, 10 * mib};
  const DeviceRoom cpu{kCpu, 1000 * mib};
  EXPECT_EQ(said(sizes, {{kFirst, 120 * mib}, cpu}), "cuda:0 is not used: it has " + ByteText(120 * mib) +
                                                         " free for a model, and the first layer takes " +
                                                         ByteText(160 * mib) + " with what runs it");
  EXPECT_EQ(said(sizes, {{kFirst, 160 * mib}, cpu}), "") << "it holds a layer";
  EXPECT_EQ(said(sizes, {{kFirst, 160 * mib}, {kSecond, 60 * mib}, cpu}),
            "cuda:1 is not used: it has " + ByteText(60 * mib) + " free for a model, and the first layer takes " +
                ByteText(110 * mib) + " with what runs it");
  EXPECT_EQ(said(sizes, {{kFirst, 400 * mib}, {kSecond, 60 * mib}, cpu}), "") << "nothing was left for it";
  EXPECT_EQ(said(sizes, {cpu}), "");
}

TEST(LayerPlacement, AGpuWithoutADriverIsSeenAmongTheDevices) {
  const TemporaryFolder folder;
  EXPECT_FALSE(HasNvidiaGpu(folder.File("absent")));
  const auto add = [&](const char* name, const char* vendor, const char* kind) {
    std::filesystem::create_directory(folder.File(name));
    folder.Write(std::string(name) + "/vendor", vendor);
    folder.Write(std::string(name) + "/class", kind);
  };
  add("0000:00:01.0", "0x1022\n", "0x030000\n");
  add("0000:00:02.0", "0x10de\n", "0x040300\n");  // the sound of a display
  EXPECT_FALSE(HasNvidiaGpu(folder.path()));
  add("0000:00:03.0", "0x10de\n", "0x030200\n");
  EXPECT_TRUE(HasNvidiaGpu(folder.path()));
}

// Eight query heads and two KV heads of 64 components.
ModelConfig Plain() {
  ModelConfig config = ReadModelConfig(ReferenceModel());
  config.hidden_size = 256;
  config.intermediate_size = 16;
  config.layers.assign(2, {.num_qo_heads = 8, .num_kv_heads = 2, .head_dim = 64, .v_head_dim = 64, .scale = 0.125});
  return config;
}

TEST(LayerPlacement, CappedScoresAreCounted) {
  ModelConfig config = Plain();
  const double plain = PassBytes(config, 2, 512, 4096);
  config.layers[1].soft_cap = 50;
  const double keys_and_values = 4.0 * 2 * 128 * 4096, outputs = 4.0 * 2 * 512 * 512;
  const double all_scores = 4.0 * 8 * 512 * 4096;  // just one block
  EXPECT_DOUBLE_EQ(PassBytes(config, 2, 512, 4096) - plain, keys_and_values + outputs + 4 * all_scores);
  // However long the pass, a block of scores is 64 MiB; but one row's scores are made at once.
  const double block = 4.0 * (int64_t{64} << 18);
  EXPECT_DOUBLE_EQ(PassBytes(config, 2, 5120, 8192) - PassBytes(Plain(), 2, 5120, 8192),
                   4.0 * 2 * 128 * 8192 + 4.0 * 2 * 512 * 5120 + 4 * block);
  const double long_row = 4.0 * 8 * 4e6;
  EXPECT_GT(PassBytes(config, 2, 1, 4'000'000) - PassBytes(Plain(), 2, 1, 4'000'000), 4 * long_row);
}

TEST(LayerPlacement, LinearLayersAreCounted) {
  ModelConfig config = Plain();
  const double plain = PassBytes(config, 2, 100, 4096);
  config.mixer = {.num_key_heads = 4, .num_value_heads = 8, .key_dim = 128, .value_dim = 128, .kernel = 4};
  config.layers[1].other_mixer = true;
  EXPECT_EQ(MixerStateBytes(config, 2), 4 * 8 * 128 * 128 + 2 * (2 * 4 * 128 + 8 * 128) * 3);
  const double wider = PassBytes(config, 2, 100, 4096);
  EXPECT_GT(wider, plain + 100 * 4.0 * 8 * 128 * 4) << "q and k in fp32, for every value head";
  EXPECT_DOUBLE_EQ(wider, PassBytes(config, 2, 100, 100'000)) << "whatever the length of the text";
}

TEST(LayerPlacement, AnIndexIsCounted) {
  ModelConfig config = Plain();
  const double plain = PassBytes(config, 2, 100, 4096);
  config.index = {.heads = 4, .dim = 64};
  config.layers[1].selected = 256;
  const double with = PassBytes(config, 2, 100, 4096);
  EXPECT_GT(with, plain + 3 * 4.0 * 4 * 4096 * 100) << "the scores of all its heads, three times in fp32";
  EXPECT_LT(PassBytes(config, 2, 100'000, 100'000) - PassBytes(Plain(), 2, 100'000, 100'000), 8e9)
      << "a block at a time";
}

TEST(LayerPlacement, ShortConvolutionsAreCounted) {
  ModelConfig config = Plain();
  config.mixer = {.kind = MixerKind::kShortConvolution, .kernel = 3};
  config.layers[1].other_mixer = true;
  EXPECT_EQ(MixerStateBytes(config, 2), 2 * config.hidden_size * 2);
  EXPECT_GE(PassBytes(config, 2, 100, 4096), (4.0 + 7) * config.hidden_size * 2 * 100);
}

TEST(LayerPlacement, RecordedPointsAreCounted) {
  const ModelConfig config = Plain();
  const double plain = PassBytes(config, 2, 100, 4096);
  double sum = plain;
  std::vector<CapturePoint> all;
  for (const CapturePointInfo& info : kCapturePoints) {
    const double with = PassBytes(config, 2, 100, 4096, std::vector{info.point});
    EXPECT_GT(with, plain) << info.name;
    sum += with - plain;
    all.push_back(info.point);
  }
  EXPECT_DOUBLE_EQ(PassBytes(config, 2, 100, 4096, all), sum);
  EXPECT_GT(PassBytes(config, 2, 1, 1, std::vector{CapturePoint::kValueNorms}), 4.0 * 256 * 512) << "W_o in fp32";
}

TEST(LayerPlacement, PlacesAreToldInRuns) {
  EXPECT_EQ(PlacementText(std::vector<Device>{kFirst, kFirst, kSecond, kCpu, kCpu}),
            "layers 0-1 on cuda:0, 2 on cuda:1, 3-4 on cpu");
  EXPECT_EQ(PlacementText(std::vector<Device>(3, kCpu)), "layers 0-2 on cpu");
  EXPECT_EQ(PlacementText({}), "");
}

TEST(LayerPlacement, TheCpuIsTheLastOfThisMachinesDevices) {
  const std::vector<DeviceRoom> rooms = DeviceRooms().rooms;
  ASSERT_FALSE(rooms.empty());
  EXPECT_EQ(rooms.back().device, kCpu);
  for (size_t i = 0; i + 1 < rooms.size(); ++i) {
    EXPECT_TRUE(rooms[i].device.is_gpu());
    EXPECT_TRUE(i == 0 || rooms[i - 1].free_bytes >= rooms[i].free_bytes);
  }
}

}  // namespace
}  // namespace headscope::model
