(* H19: Gamma(zeta, z) = z . zeta - F(zeta) has a saddle at its stationary point, and min over z of max over zeta
   Gamma = -F(0). Over any ordered field; of F only the two inequalities named are used, which Cov(v) >= 0 and |v|^2
   <= L give. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import lengths.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Hessian.
Variables (R : realFieldType) (d : nat) (Cov : 'M[R]_d).
Definition hessian : 'M[R]_(d + d) := block_mx (- Cov) 1%:M 1%:M 0.

(* H19: on the plane of an eigenvector x of Cov, that of the vectors (p x, q x), the Hessian is [[-c, 1], [1, 0]]. *)
Theorem H19_plane c (x : 'cV[R]_d) p q : Cov *m x = c *: x ->
  hessian *m col_mx (p *: x) (q *: x) = col_mx ((- c * p + q) *: x) (p *: x).
Proof.
move=> cx; rewrite mul_block_col !mul1mx mul0mx addr0 mulNmx -scalemxAr cx scalerA -scaleNr -scalerDl.
by rewrite mulNr mulrC.
Qed.

(* H19: so its eigenvalues there are the m with m^2 + c m - 1 = 0, and with m also -1/m, of the other sign: their
   product, the determinant of the plane, is -1. *)
Theorem H19_eigen c m (x : 'cV[R]_d) : Cov *m x = c *: x -> m ^+ 2 + c * m - 1 = 0 ->
  hessian *m col_mx (m *: x) x = m *: col_mx (m *: x) x.
Proof.
move=> cx m2; rewrite -{2}[x]scale1r (H19_plane _ _ cx) scale_col_mx scalerA; congr (col_mx (_ *: x) _).
by apply/eqP; rewrite eq_sym -subr_eq0 opprD mulNr opprK addrA -expr2 m2.
Qed.

Theorem H19_other (c m : R) : m ^+ 2 + c * m - 1 = 0 -> m != 0 /\ (- m^-1) ^+ 2 + c * (- m^-1) - 1 = 0.
Proof.
move=> m2; have m0 : m != 0.
  by apply: contraTneq isT => m0; move/eqP: m2; rewrite m0 expr0n mulr0 addr0 sub0r oppr_eq0 oner_eq0.
split=> //; have -> : (- m^-1) ^+ 2 + c * (- m^-1) - 1 = - (m ^+ 2 + c * m - 1) / m ^+ 2.
  rewrite !opprD opprK !mulrDl mul1r !mulNr divff ?expf_neq0 // sqrrN !expr2 invfM [c * m * _]mulrA mulfK // mulrN.
  by rewrite [RHS]addrC [- 1 - _]addrC addrA.
by rewrite m2 oppr0 mul0r.
Qed.

(* H19: there are no others: every eigenvalue of the Hessian comes from one of Cov. *)
Theorem H19_eigen_only m (y x : 'cV[R]_d) : hessian *m col_mx y x = m *: col_mx y x -> col_mx y x != 0 ->
  [/\ m != 0, x != 0, y = m *: x & Cov *m x = ((1 - m ^+ 2) / m) *: x].
Proof.
rewrite mul_block_col !mul1mx mul0mx addr0 scale_col_mx => /eq_col_mx[top bot] nz.
have x0 : x != 0.
  apply: contraNneq nz => x0; move: bot; rewrite x0 scaler0 => ->.
  by rewrite col_mx0.
have m0 : m != 0.
  apply: contraNneq x0 => m0; move: bot; rewrite m0 scale0r => y0; move: top.
  by rewrite y0 mulmx0 add0r scaler0 => ->.
split=> //; move: top; rewrite bot mulNmx -scalemxAr scalerA => top.
have e : m *: (Cov *m x) = (1 - m ^+ 2) *: x.
  by rewrite scalerBl scale1r expr2 -top opprD opprK addrCA subrr addr0.
by rewrite mulrC -scalerA -e scalerA mulVf // scale1r.
Qed.

(* H19: always d positive and d negative: in the coordinates p = y + w, q = y - w with w = z - Cov y / 2, of which y
   and z are given back, twice the form is |p|^2 - |q|^2. *)
Theorem H19_inertia (y z : 'cV[R]_d) (h := 2%:R^-1 : R) (w := z - h *: (Cov *m y)) (p := y + w) (q := y - w) :
  [/\ 2%:R * inner (col_mx y z) (hessian *m col_mx y z) = len2 p - len2 q,
    y = h *: (p + q) & z = h *: (p - q) + h *: (Cov *m y)].
Proof.
have h2 : 2%:R * h = 1 by rewrite /h mulfV ?pnatr_eq0.
have half (x : 'cV[R]_d) : h *: (x + x) = x.
  by rewrite -mulr2n -scaler_nat scalerA /h mulVf ?scale1r // pnatr_eq0.
have par (x x' : 'cV[R]_d) : len2 (x + x') - len2 (x - x') = inner x x' *+ 4.
  rewrite -[- x']scaleN1r !len2D len2Z innerZr sqrrN expr1n mul1r mulN1r; set S := len2 x + len2 x'.
  by rewrite [S + inner x x' *+ 2]addrC addrKA mulNrn opprK -mulrnDr.
split.
- rewrite mul_block_col !mul1mx mul0mx addr0 inner_col innerDr mulNmx.
  have -> : len2 p - len2 q = inner y w *+ 4 by exact: par.
  have -> : inner y w = inner y z - h * inner y (Cov *m y) by rewrite innerDr -scaleNr innerZr mulNr.
  rewrite -[- (Cov *m y)]scaleN1r innerZr mulN1r [inner z y]innerC.
  rewrite -[RHS]mulr_natl -[4%N]/(2 * 2)%N natrM -[RHS]mulrA; congr (_ * _).
  by rewrite [RHS]mulrBr mulrA h2 mul1r mulr_natl mulr2n addrC addrA addrAC addrC.
- by rewrite /p /q addrACA subrr addr0 half.
have -> : p - q = w + w by rewrite /p /q opprB [y + w]addrC addrACA subrr addr0.
by rewrite half subrK.
Qed.
End Hessian.

Section Saddle.
Variables (R : realFieldType) (d : nat) (F : 'cV[R]_d -> R) (zs : 'cV[R]_d).
Definition Gamma (y z : 'cV[R]_d) := inner z y - F y.

(* H19: Gamma is unbounded above and below: no maximum of e^(-Gamma), and no density. *)
Theorem H19_unbounded (y : 'cV[R]_d) b : y != 0 -> (exists z, b < Gamma y z) /\ (exists z, Gamma y z < b).
Proof.
move=> y0; have pos := len2_gt0 y0.
have at_ c : Gamma y (((c + F y) / len2 y) *: y) = c.
  by rewrite /Gamma innerC innerZr -len2E divfK ?gt_eqF // addrK.
split; [exists (((b + 1 + F y) / len2 y) *: y) | exists (((b - 1 + F y) / len2 y) *: y)].
  by rewrite at_ ltr_addl ltr01.
by rewrite at_ ltr_subl_addl ltr_addr ltr01.
Qed.

(* F is convex: it lies above its tangent at 0, whose slope zs = grad F(0) is attention; *)
Hypothesis convex : forall y, F 0 + inner zs y <= F y.
(* and its second derivatives are at most L = max |v|^2. *)
Variable L : R.
Hypothesis L0 : 0 < L.
Hypothesis smooth : forall y, F y <= F 0 + inner zs y + L / 2%:R * len2 y.

(* H19: at z = zs the maximum over y is -F(0), at y = 0. *)
Theorem H19_value y : Gamma y zs <= Gamma 0 zs /\ Gamma 0 zs = - F 0.
Proof.
have e : Gamma 0 zs = - F 0 by rewrite /Gamma -(scale0r zs) innerZr mul0r sub0r.
by rewrite e; split=> //; rewrite /Gamma ler_subl_addr addrC ler_subr_addl convex.
Qed.

(* H19: at any other z some y is higher by |z - zs|^2 / (2 L), so the minimum over z of the maximum is -F(0), at zs
   alone. *)
Theorem H19_minmax z : - F 0 + len2 (z - zs) / (2%:R * L) <= Gamma (L^-1 *: (z - zs)) z.
Proof.
set w := z - zs; set y := L^-1 *: w; have zE : z = zs + w by rewrite addrC subrK.
rewrite /Gamma zE innerC innerDr ![inner y _]innerC.
apply: le_trans (_ : inner zs y + inner w y - (F 0 + inner zs y + L / 2%:R * len2 y) <= _); last first.
  by rewrite ler_add2l ler_opp2 smooth.
have -> : inner w y = len2 w / L by rewrite innerZr -len2E mulrC.
have -> : L / 2%:R * len2 y = len2 w / L / 2%:R.
  by rewrite len2Z expr2 [L / _]mulrC -!mulrA mulVKf ?gt_eqF // [RHS]mulrA [RHS]mulrC [W in _ = _ * W]mulrC.
have -> : len2 w / (2%:R * L) = len2 w / L / 2%:R by rewrite invfM mulrA mulrAC.
move: (len2 w / L) => X; rewrite {2}(splitr X); set g := X / 2%:R.
by rewrite addrA [F 0 + _]addrC [X in _ <= _ - X]addrAC [inner zs y + g + g]addrC addrKA addrC.
Qed.
End Saddle.
