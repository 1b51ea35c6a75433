// SPDX-License-Identifier: Apache-2.0
// What the open trace is: model, prompt, what was recorded.
#pragma once

#include <QTreeWidget>

#include "head_store.h"

namespace headscope::ui {

class TraceInfo : public QTreeWidget {
  Q_OBJECT

 public:
  explicit TraceInfo(const HeadStore* store, QWidget* parent = nullptr);

 private:
  void Rebuild();
  // The chosen line's value, as the pane shows it, to the clipboard.
  void Copy() const;
  const HeadStore* const store_;
};

}  // namespace headscope::ui
