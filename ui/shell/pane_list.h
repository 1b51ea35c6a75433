// SPDX-License-Identifier: Apache-2.0
// The panes around the map, one line each: a function of a file of its own that makes the pane, the dock's name in
// saved layouts, its title, where it is at first, and how many pixels it takes there beside its neighbours. Included
// more than once, so without a guard.
HEADSCOPE_PANE(MakeMatrixPane, "matrixDock", "Layers × heads", kLeft, 430)
HEADSCOPE_PANE(MakeHeadTablePane, "tableDock", "Heads", kBelow, 300)
HEADSCOPE_PANE(MakeRunsPane, "runsDock", "Runs", kBottom, 620)
HEADSCOPE_PANE(MakeMassPane, "massDock", "Kept mass", kBeside, 360)
HEADSCOPE_PANE(MakeMapsPane, "mapsDock", "Maps", kBehindLeft, 0)
HEADSCOPE_PANE(MakeTracePane, "infoDock", "Trace", kBehindBelow, 0)
HEADSCOPE_PANE(MakeTextPane, "textDock", "Text", kBehindBottom, 0)
HEADSCOPE_PANE(MakeTradeOffPane, "tradeOffDock", "Trade-off", kBehindBottom, 0)
HEADSCOPE_PANE(MakeLostPane, "lostDock", "Lost keys", kBehindBeside, 0)
HEADSCOPE_PANE(MakeNotesPane, "notesDock", "Notes", kBehindBelow, 0)
HEADSCOPE_PANE(MakeLogPane, "logDock", "Log", kBehindBeside, 0)
HEADSCOPE_PANE(MakeCurvePane, "curveDock", "Mass by query", kBehindBeside, 0)
HEADSCOPE_PANE(MakeFigurePane, "figureDock", "Figures", kBehindBottom, 0)
HEADSCOPE_PANE(MakeHistogramPane, "histogramDock", "Histogram", kBehindLeft, 0)
HEADSCOPE_PANE(MakeQuantisePane, "quantiseDock", "Quantisation", kBehindBottom, 0)
// What a build of its own adds (tests/extension): nothing here.
#ifdef HEADSCOPE_MORE_PANES
HEADSCOPE_MORE_PANES(HEADSCOPE_PANE)
#endif
