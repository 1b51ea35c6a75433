// SPDX-License-Identifier: Apache-2.0
// Callbacks of background work that outlive nothing: they do nothing once their receiver is gone.
#pragma once

#include <QObject>
#include <QPointer>
#include <utility>

namespace headscope::ui {

// Call and destroy on the UI thread.
template <typename Function>
auto WhileAlive(QObject* receiver, Function function) {
  return [alive = QPointer<QObject>(receiver), function = std::move(function)](auto&&... arguments) {
    if (alive) function(std::forward<decltype(arguments)>(arguments)...);
  };
}

}  // namespace headscope::ui
