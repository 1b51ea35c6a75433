// SPDX-License-Identifier: Apache-2.0
// Two maps side by side: two heads, or two methods on one head. What is zoomed, coloured or pointed at in one is so in
// the other.
#include "main_window.h"

namespace headscope::ui {

void MainWindow::BindSplit() {
  commands_.Bind(Command::kSplit, [this](bool on) { Split(on); });
  commands_.Bind(Command::kSplitFollows, [this](bool on) {
    if (on && second_ != nullptr && state_.heads.selected()) ShowReference(*state_.heads.selected());
  });
  commands_.Bind(Command::kExchangeMaps, [this](bool) { ExchangeMaps(); });
}

void MainWindow::Split(bool split) {
  commands_[Command::kSplit]->setChecked(split);
  if (split == (second_ != nullptr)) return;
  if (!split) {
    second_->SetWorkbench(nullptr);
    delete std::exchange(second_, nullptr);
    canvas_->SetOtherCursor(-1, -1);
    canvas_->SetNamed(false);
    UpdateCommands();
    return;
  }
  second_ = new HeadCanvas(maps_, &state_.reference);
  second_->setObjectName(QStringLiteral("secondCanvas"));
  second_->setMinimumSize(240, 180);
  second_->SetPanelVisible(false);
  for (HeadCanvas* map : {canvas_, second_}) map->SetNamed(true);
  maps_->addWidget(second_);
  maps_->setSizes({1, 1});
  second_->SetWorkbench(workbench_);
  if (state_.heads.HasTrace()) second_->SetTrace(state_.heads.trace());
  second_->ShowColorsOf(*canvas_);
  second_->SetOverlay(canvas_->overlay());
  // It begins as what is on show: what changes from here on is compared with it.
  if (const kernels::MethodSpec* spec = state_.trial.method())
    state_.reference.SelectMethod(spec->name, state_.trial.values());
  if (state_.heads.selected()) ShowReference(*state_.heads.selected());
  const auto follow = [this](HeadCanvas* leader, HeadCanvas* follower) {
    const auto linked = [this](auto change) {
      return [this, change] {
        if (linking_ || second_ == nullptr) return;
        linking_ = true;
        change();
        linking_ = false;
      };
    };
    connect(leader, &HeadCanvas::ViewChanged, second_, linked([=] { follower->ShowViewOf(*leader); }));
    connect(leader, &HeadCanvas::CursorMoved, second_,
            [=](qint64 row, qint64 column) { follower->SetOtherCursor(row, column); });
    connect(leader, &HeadCanvas::CursorLeft, second_, [=] { follower->SetOtherCursor(-1, -1); });
  };
  follow(canvas_, second_);
  follow(second_, canvas_);
  connect(canvas_, &HeadCanvas::DisplayChanged, second_, [this] { second_->ShowColorsOf(*canvas_); });
  connect(second_, &HeadCanvas::CursorMoved, this, &MainWindow::ShowCursor);
  connect(second_, &HeadCanvas::CursorMoved, &state_.focus,
          [this](qint64 row, qint64 column) { state_.focus.Point(row, column); });
  connect(second_, &HeadCanvas::CursorLeft, cursor_label_, &QLabel::clear);
  connect(second_, &HeadCanvas::HeadStepRequested, this, [this](int step) {
    if (const auto head = state_.heads.Neighbour(second_->head(), step)) ShowReference(*head);
  });
  connect(second_, &HeadCanvas::GraphicsFailed, notice_, &NoticeBar::ShowError);
  UpdateCommands();
}

void MainWindow::ShowReference(analysis::HeadId head) {
  second_->ShowHead(head);
  second_->ShowViewOf(*canvas_);
  UpdateCommands();
}

void MainWindow::ExchangeMaps() {
  if (second_ == nullptr || !second_->HasHead() || !canvas_->HasHead()) return;
  const analysis::HeadId first = canvas_->head(), second = second_->head();
  const kernels::MethodSpec *const spec = state_.trial.method(), *const other = state_.reference.method();
  if (spec != nullptr && other != nullptr) {
    const std::string name = spec->name, other_name = other->name;
    const kernels::ParameterValues values = state_.trial.values(), other_values = state_.reference.values();
    state_.trial.SelectMethod(other_name, other_values);
    state_.reference.SelectMethod(name, values);
  }
  state_.heads.Select(second);
  ShowReference(first);
}

}  // namespace headscope::ui
