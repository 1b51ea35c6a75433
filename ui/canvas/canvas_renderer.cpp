// SPDX-License-Identifier: Apache-2.0
#include "canvas_renderer.h"

#include <QOpenGLContext>
#include <QOpenGLExtraFunctions>
#include <QOpenGLShaderProgram>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "lru_cache.h"
#include "map_shader.h"

#ifndef GL_R16F
#define GL_R16F 0x822D
#endif

namespace headscope::ui {

namespace {

using analysis::kTileSize;
using analysis::TileKey;

constexpr char kDifferenceColors[] = "coolwarm";
constexpr int64_t kTextureCapacityBytes = int64_t{256} << 20;

// Owns one texture name; made and destroyed with the context current.
class Texture {
 public:
  Texture() = default;
  explicit Texture(QOpenGLExtraFunctions* gl) : gl_(gl) { gl_->glGenTextures(1, &name_); }
  Texture(Texture&& other) noexcept : gl_(other.gl_), name_(std::exchange(other.name_, 0)) {}
  Texture& operator=(Texture&& other) noexcept {
    std::swap(gl_, other.gl_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~Texture() {
    if (name_ != 0) gl_->glDeleteTextures(1, &name_);
  }
  GLuint name() const { return name_; }

 private:
  QOpenGLExtraFunctions* gl_ = nullptr;
  GLuint name_ = 0;
};

// The texture of one tile, or of two. The weak pointers tell whether the addresses still mean the same tiles.
struct TileTexture {
  Texture texture;
  std::weak_ptr<const void> tile, other;
};

}  // namespace

std::vector<float> EncodeTile(const analysis::TileData& tile, const CausalRows& rows) {
  std::vector<float> encoded = tile.log2_p;
  const int32_t level = tile.key.level;
  for (int64_t y = 0; y < kTileSize; ++y) {
    const int64_t texel_y = tile.key.y * int64_t{kTileSize} + y;
    const int64_t last_row = std::min(((texel_y + 1) << level), rows.num_rows()) - 1;
    const int64_t num_columns = last_row < (texel_y << level) ? 0 : rows.NumColumns(last_row);
    for (int64_t x = 0; x < kTileSize; ++x) {
      const int64_t first_column = (tile.key.x * int64_t{kTileSize} + x) << level;
      float& value = encoded[static_cast<size_t>(y * kTileSize + x)];
      value = first_column < num_columns ? std::max(value, kFloorLog2) : kBlankLog2;
    }
  }
  return encoded;
}

float EncodeDifferenceLog2(double difference) {
  const double size_log2 = std::log2(std::fabs(difference)) + static_cast<double>(kDifferenceBias);
  // Not 0: the sign of nothing would be lost with it, and there is none.
  return size_log2 > 0 ? static_cast<float>(std::copysign(size_log2, difference)) : 0.0f;
}

std::vector<float> EncodeDifference(const TileSample<analysis::TileData>& values,
                                    const TileSample<analysis::TileData>& other, const CausalRows& rows,
                                    int64_t end_row) {
  const std::vector<float> here = EncodeTile(*values.tile, rows), there = EncodeTile(*other.tile, rows);
  const auto place = [](float begin, float end, int64_t i) {
    const float at = begin + (end - begin) * (static_cast<float>(i) + 0.5f) / kTileSize;
    return std::clamp<int64_t>(static_cast<int64_t>(at * kTileSize), 0, kTileSize - 1);
  };
  const auto texel = [&](const TileSample<analysis::TileData>& sample, const std::vector<float>& texels, int64_t x,
                         int64_t y) {
    const int64_t texel_y = place(sample.v_begin, sample.v_end, y);
    const TileKey& key = sample.tile->key;
    if (end_row != kEveryRow && (key.y * int64_t{kTileSize} + texel_y + 1) << key.level > end_row) return kBlankLog2;
    return texels[static_cast<size_t>(texel_y * kTileSize + place(sample.u_begin, sample.u_end, x))];
  };
  std::vector<float> encoded(here.size());
  for (int64_t y = 0; y < kTileSize; ++y) {
    for (int64_t x = 0; x < kTileSize; ++x) {
      const float a = texel(values, here, x, y), b = texel(other, there, x, y);
      encoded[static_cast<size_t>(y * kTileSize + x)] =
          std::min(a, b) <= kBlankLog2
              ? kBlankLog2
              : EncodeDifferenceLog2(std::exp2(static_cast<double>(b)) - std::exp2(static_cast<double>(a)));
    }
  }
  return encoded;
}

struct CanvasRenderer::Impl {
  QOpenGLExtraFunctions* gl = nullptr;
  std::map<MapFeatures, std::unique_ptr<QOpenGLShaderProgram>> programs;
  GLuint vertex_array = 0;
  Texture palette;
  const analysis::ColorMap* palette_colors = nullptr;
  // By tile; of a comparison by its two tiles and the part of each that it shows.
  struct TextureKey {
    const void *tile = nullptr, *other = nullptr;
    std::array<float, 4> corners{};
    friend auto operator<=>(const TextureKey&, const TextureKey&) = default;
  };
  LruCache<TextureKey, TileTexture> textures{kTextureCapacityBytes};
  QString error;

  // Binds the tile's texture to the active unit, uploading it if need be.
  template <typename Tile, typename Upload>
  void Bind(const std::shared_ptr<const Tile>& tile, int64_t bytes, const Upload& upload,
            const std::shared_ptr<const Tile>& other = nullptr, const std::array<float, 4>& corners = {}) {
    const TextureKey key{tile.get(), other.get(), corners};
    TileTexture* held = textures.Find(key);
    if (held == nullptr || held->tile.lock() != tile || held->other.lock() != other) {
      TileTexture made{Texture(gl), tile, other};
      gl->glBindTexture(GL_TEXTURE_2D, made.texture.name());
      // Nearest: a texel is one value, not a mixture with its neighbours.
      gl->glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
      gl->glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
      gl->glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
      gl->glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
      gl->glPixelStorei(GL_UNPACK_ALIGNMENT, 1);
      upload();
      textures.Put(key, std::move(made), bytes);
    } else {
      gl->glBindTexture(GL_TEXTURE_2D, held->texture.name());
    }
  }

  void UsePalette(const analysis::ColorMap* colors) {
    gl->glActiveTexture(GL_TEXTURE2);
    gl->glBindTexture(GL_TEXTURE_2D, palette.name());
    if (colors == palette_colors) return;
    std::array<uint8_t, 256 * 4> texels{};
    const analysis::Palette& entries = colors->palette;
    for (size_t i = 0; i < entries.size(); ++i) {
      texels[4 * i] = entries[i].red;
      texels[4 * i + 1] = entries[i].green;
      texels[4 * i + 2] = entries[i].blue;
      texels[4 * i + 3] = 255;
    }
    gl->glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    gl->glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
    gl->glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, 256, 1, 0, GL_RGBA, GL_UNSIGNED_BYTE, texels.data());
    palette_colors = colors;
  }

  // Null, and a sentence in `error`, when it does not compile.
  QOpenGLShaderProgram* Program(const MapFeatures& features) {
    if (const auto known = programs.find(features); known != programs.end()) return known->second.get();
    auto program = std::make_unique<QOpenGLShaderProgram>();
    if (!program->addShaderFromSourceCode(QOpenGLShader::Vertex, kMapVertexShader) ||
        !program->addShaderFromSourceCode(QOpenGLShader::Fragment,
                                          QByteArray::fromStdString(MapFragmentShader(features))) ||
        !program->link()) {
      error =
          QStringLiteral("The canvas's shaders do not compile on this OpenGL driver: ") + program->log().simplified();
      program.reset();  // and is not tried again
    }
    return (programs[features] = std::move(program)).get();
  }

  void SetDestination(QOpenGLShaderProgram* program, const PixelRect& rect, QSize framebuffer_size, double ratio) {
    const double width = framebuffer_size.width(), height = framebuffer_size.height();
    const auto x = [&](double pixels) { return static_cast<float>(2 * pixels * ratio / width - 1); };
    const auto y = [&](double pixels) { return static_cast<float>(1 - 2 * pixels * ratio / height); };
    program->setUniformValue("destination", QVector4D(x(rect.x), y(rect.y), x(rect.right()), y(rect.bottom())));
  }
};

CanvasRenderer::CanvasRenderer() : impl_(std::make_unique<Impl>()) {}
CanvasRenderer::~CanvasRenderer() = default;

bool CanvasRenderer::ready() const {
  return impl_->gl != nullptr;
}
const QString& CanvasRenderer::error() const {
  return impl_->error;
}
bool CanvasRenderer::Init() {
  if (ready()) return true;
  QOpenGLContext* const context = QOpenGLContext::currentContext();
  const QSurfaceFormat format = context->format();
  if (context->isOpenGLES() || format.version() < std::make_pair(3, 3)) {
    impl_->error = QStringLiteral(
                       "The canvas needs desktop OpenGL 3.3; this display offers OpenGL%1 %2.%3: install a newer "
                       "driver or Mesa's software renderer.")
                       .arg(QLatin1String(context->isOpenGLES() ? " ES" : ""))
                       .arg(format.majorVersion())
                       .arg(format.minorVersion());
    return false;
  }
  // Of what every map needs; a program that is met later differs in little.
  if (impl_->Program({.hatch = true}) == nullptr || impl_->Program({}) == nullptr) return false;
  impl_->gl = context->extraFunctions();
  impl_->gl->glGenVertexArrays(1, &impl_->vertex_array);
  impl_->palette = Texture(impl_->gl);
  impl_->palette_colors = nullptr;
  impl_->error.clear();
  return true;
}

void CanvasRenderer::Release() {
  if (!ready()) return;
  impl_->textures.Clear();
  impl_->palette = Texture();
  impl_->gl->glDeleteVertexArrays(1, &impl_->vertex_array);
  impl_->vertex_array = 0;
  impl_->programs.clear();
  impl_->gl = nullptr;
}

// To be replaced when the tile itself comes: striped.
static bool IsStandIn(const TileSample<analysis::TileData>& sample) {
  return sample.levels_coarser > 0 || sample.tile->preview;
}

// Of full light.
static float Part(uint8_t channel) {
  return static_cast<float>(channel) / 255;
}

void CanvasRenderer::Clear(QSize framebuffer_size, const analysis::Ground& ground) {
  QOpenGLExtraFunctions* const gl = QOpenGLContext::currentContext()->extraFunctions();
  gl->glViewport(0, 0, framebuffer_size.width(), framebuffer_size.height());
  gl->glDisable(GL_SCISSOR_TEST);
  gl->glColorMask(GL_TRUE, GL_TRUE, GL_TRUE, GL_TRUE);
  gl->glClearColor(Part(ground.paper.red), Part(ground.paper.green), Part(ground.paper.blue), 1);
  gl->glClear(GL_COLOR_BUFFER_BIT);
}

void CanvasRenderer::Draw(const MapPicture& picture, const MapLook& look, const CausalRows& rows,
                          QSize framebuffer_size, double device_pixel_ratio) {
  if (!ready() || picture.clip.width <= 0 || picture.clip.height <= 0) return;
  Impl& impl = *impl_;
  QOpenGLExtraFunctions* const gl = impl.gl;
  gl->glViewport(0, 0, framebuffer_size.width(), framebuffer_size.height());
  gl->glDisable(GL_DEPTH_TEST);
  gl->glDisable(GL_CULL_FACE);
  gl->glDisable(GL_BLEND);
  gl->glEnable(GL_SCISSOR_TEST);
  const auto device = [&](double pixels) { return static_cast<GLint>(std::lround(pixels * device_pixel_ratio)); };
  gl->glScissor(device(picture.clip.x), framebuffer_size.height() - device(picture.clip.bottom()),
                device(picture.clip.right()) - device(picture.clip.x),
                device(picture.clip.bottom()) - device(picture.clip.y));

  gl->glBindVertexArray(impl.vertex_array);
  impl.UsePalette(picture.comparison == Comparison::kValues ? analysis::FindColorMap(kDifferenceColors)
                                                            : look.color_map);
  const auto color = [](analysis::Rgb rgb) { return QVector3D(Part(rgb.red), Part(rgb.green), Part(rgb.blue)); };
  std::array<QVector3D, analysis::kNumKeptBy> kept_by;
  std::transform(analysis::kKeptByColors.begin(), analysis::kKeptByColors.end(), kept_by.begin(), color);
  QOpenGLShaderProgram* used = nullptr;
  // Binds the program of the features; false where it does not compile.
  const auto use = [&](const MapFeatures& features) {
    QOpenGLShaderProgram* const program = impl.Program(features);
    if (program == nullptr || program == used) return program != nullptr;
    used = program;
    program->bind();
    program->setUniformValue("values", 0);
    program->setUniformValue("mask", 1);
    program->setUniformValue("palette", 2);
    program->setUniformValue("pair", 3);
    program->setUniformValue("lost", look.lost);
    program->setUniformValue("range_log2", QVector2D(look.range.minimum_log2, look.range.maximum_log2));
    program->setUniformValue("blank_log2", (kBlankLog2 + kFloorLog2) / 2);
    program->setUniformValue("hatch_shades", QVector2D(Part(look.ground.hatch.red), Part(look.ground.stripe.red)));
    program->setUniformValueArray("kept_by", kept_by.data(), static_cast<int>(kept_by.size()));
    return true;
  };

  if (use({.hatch = true})) {
    impl.SetDestination(used, picture.hatched, framebuffer_size, device_pixel_ratio);
    gl->glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
  }
  for (const MapQuad& quad : picture.quads) {
    const auto& values = quad.values;
    if (!values.tile) continue;
    const bool difference = quad.other.tile != nullptr;
    if (!use({.masked = !difference && quad.mask.tile != nullptr,
              .paired = !difference && quad.pair.tile != nullptr,
              .difference = difference,
              .logarithmic = look.logarithmic}))
      continue;
    QOpenGLShaderProgram& program = *used;
    impl.SetDestination(used, quad.destination, framebuffer_size, device_pixel_ratio);
    gl->glActiveTexture(GL_TEXTURE0);
    // Of a comparison whose other half is not there yet, grey.
    const bool waits = (picture.comparison == Comparison::kMasks && !quad.pair.tile) ||
                       (picture.comparison == Comparison::kValues && !quad.other.tile);
    program.setUniformValue("stale", picture.stale || waits);
    if (difference) {
      impl.Bind(values.tile, int64_t{kTileSize} * kTileSize * 2,
                [&] {
                  const std::vector<float> texels =
                      EncodeDifference(values, quad.other, rows, picture.compared_end_row);
                  gl->glTexImage2D(GL_TEXTURE_2D, 0, GL_R16F, kTileSize, kTileSize, 0, GL_RED, GL_FLOAT, texels.data());
                },
                quad.other.tile, {values.u_begin, values.v_begin, quad.other.u_begin, quad.other.v_begin});
      program.setUniformValue("coarse", IsStandIn(values) || IsStandIn(quad.other));
      program.setUniformValue("value_area", QVector4D(0, 0, 1, 1));
      gl->glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
      continue;
    }
    if (quad.pair.tile) {
      gl->glActiveTexture(GL_TEXTURE3);
      impl.Bind(quad.pair.tile, int64_t{kTileSize} * kTileSize * static_cast<int64_t>(analysis::kNumKeptBy), [&] {
        gl->glTexImage2D(GL_TEXTURE_2D, 0, GL_RGB8, kTileSize, kTileSize, 0, GL_RGB, GL_UNSIGNED_BYTE,
                         quad.pair.tile->kept.data());
      });
      program.setUniformValue("pair_area",
                              QVector4D(quad.pair.u_begin, quad.pair.v_begin, quad.pair.u_end, quad.pair.v_end));
      gl->glActiveTexture(GL_TEXTURE0);
    }
    impl.Bind(values.tile, int64_t{kTileSize} * kTileSize * 2, [&] {
      const std::vector<float> texels = EncodeTile(*values.tile, rows);
      gl->glTexImage2D(GL_TEXTURE_2D, 0, GL_R16F, kTileSize, kTileSize, 0, GL_RED, GL_FLOAT, texels.data());
    });
    if (quad.mask.tile) {
      gl->glActiveTexture(GL_TEXTURE1);
      impl.Bind(quad.mask.tile, int64_t{kTileSize} * kTileSize, [&] {
        gl->glTexImage2D(GL_TEXTURE_2D, 0, GL_R8, kTileSize, kTileSize, 0, GL_RED, GL_UNSIGNED_BYTE,
                         quad.mask.tile->kept.data());
      });
      program.setUniformValue("mask_area",
                              QVector4D(quad.mask.u_begin, quad.mask.v_begin, quad.mask.u_end, quad.mask.v_end));
    }
    program.setUniformValue("coarse", IsStandIn(values));
    program.setUniformValue("value_area", QVector4D(values.u_begin, values.v_begin, values.u_end, values.v_end));
    gl->glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
  }
  gl->glBindVertexArray(0);
  if (used != nullptr) used->release();
  gl->glActiveTexture(GL_TEXTURE0);
  gl->glDisable(GL_SCISSOR_TEST);
}

}  // namespace headscope::ui
