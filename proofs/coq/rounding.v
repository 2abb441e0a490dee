(* H5, second half: what rounding does to a reduction of triples (m, D, n), over any ordered field. (What it gives
   without rounding is reduce_value of merge.v.) e stands for the exponential: all that is used of it is e(x + y) =
   e(x) e(y) and 1 + x <= e(x). Every difference, exponential, product, sum and quotient may be off by a factor 1 + d,
   |d| <= u, each by its own; the maximum is exact; nothing underflows. A product and sum fused into one operation is
   the case d = 0 of the product. Nothing is dropped as of higher order: what the text says to first order has a
   factor 1/(1 - K u)^2 here, and H5_first_order says when 7 u make up for it. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Rounding.
Variables (R : realFieldType) (u : R) (e : R -> R).
Hypothesis u0 : 0 <= u.
Hypothesis u1 : u < 1.
Hypothesis eD : forall x y : R, e (x + y) = e x * e y.
Hypothesis e1 : forall x : R, 1 + x <= e x.

Lemma e0 : e 0 = 1.
Proof.
have pos : e 0 != 0 by rewrite gt_eqF // (lt_le_trans ltr01) // -[X in X <= _](addr0 1) e1.
by apply: (mulfI pos); rewrite -eD addr0 mulr1.
Qed.

Lemma eN x : e x * e (- x) = 1. Proof. by rewrite -eD subrr e0. Qed.

Lemma e_gt0 x : 0 < e x.
Proof.
have pos y : 0 <= y -> 0 < e y by move=> y0; apply: lt_le_trans (e1 y); rewrite ltr_paddr // ltr01.
have [x0|/ltW x0] := lerP 0 x; first exact: pos.
have nx : 0 < e (- x) by apply: pos; rewrite oppr_ge0.
by rewrite -(pmulr_lgt0 _ nx) eN ltr01.
Qed.

Lemma shift x y z : e (y - z) * e (x - y) = e (x - z).
Proof. by rewrite -eD addrC addrA subrK. Qed.

(* A factor f that K roundings can have made, 1 - K u <= f <= 1/(1 - K u); K need not be whole. *)
Definition near (K f : R) := [/\ 0 < f, 1 - K * u <= f & f * (1 - K * u) <= 1].

Lemma near_le K K' f : K <= K' -> near K f -> near K' f.
Proof.
move=> KK [f0 lo hi]; have KKu : 1 - K' * u <= 1 - K * u by rewrite ler_add2l ler_opp2 ler_wpmul2r.
by split=> //; [apply: le_trans lo | apply: le_trans hi; rewrite ler_wpmul2l // ltW].
Qed.

Lemma near_mul K K' f f' : 0 <= K -> 0 <= K' -> near K f -> near K' f' -> near (K + K') (f * f').
Proof.
move=> K0 K0' [f0 lo hi] [f0' lo' hi']; have ff0 : 0 < f * f' by rewrite mulr_gt0.
have [Ku K'u] : 0 <= K * u /\ 0 <= K' * u by rewrite !mulr_ge0.
have [neg|pos] := leP (1 - (K + K') * u) 0.
  by split=> //; [apply: le_trans neg (ltW ff0) | apply: le_trans ler01; rewrite mulr_ge0_le0 // ltW].
move: pos; rewrite mulrDl opprD addrA => pos.
have p : 0 <= 1 - K * u by apply: le_trans (ltW pos) _; rewrite ger_addl oppr_le0.
have p' : 0 <= 1 - K' * u by apply: le_trans (ltW pos) _; rewrite addrAC ger_addl oppr_le0.
have small : 1 - K * u - K' * u <= (1 - K * u) * (1 - K' * u).
  by rewrite [X in _ <= X]mulrBr mulr1 ler_add2l ler_opp2 mulrBl mul1r ger_addl oppr_le0 mulr_ge0.
split; rewrite ?mulrDl ?opprD ?addrA //; first by apply: le_trans small _; apply: ler_pmul.
apply: (@le_trans _ _ ((f * (1 - K * u)) * (f' * (1 - K' * u)))); last first.
  by rewrite -[X in _ <= X]mulr1 ler_pmul // mulr_ge0 // ltW.
by rewrite mulrACA ler_wpmul2l // ltW.
Qed.

Lemma near_round d : `|d| <= u -> near 1 (1 + d).
Proof.
move=> du; have /andP[lo hi] : - u <= d <= u by rewrite -ler_norml.
split; rewrite ?mul1r ?ler_add2l //.
  by apply: lt_le_trans (_ : 1 - u <= _); [rewrite subr_gt0 | rewrite ler_add2l].
apply: (@le_trans _ _ ((1 + u) * (1 - u))); first by rewrite ler_wpmul2r ?ler_add2l // subr_ge0 ltW.
by rewrite mulrC -subr_sqr expr1n ger_addl oppr_le0 sqr_ge0.
Qed.

(* The rounding of a difference x moves e(x) by e(x d): as |x| roundings can. *)
Lemma near_exp X y : `|y| <= X * u -> near X (e y).
Proof.
move=> yX; have /andP[lo hi] : - (X * u) <= y <= X * u by rewrite -ler_norml.
split; first exact: e_gt0; first by apply: le_trans (e1 y); rewrite ler_add2l.
rewrite -[X in _ <= X](eN y) ler_wpmul2l ?(ltW (e_gt0 _)) //; apply: le_trans (e1 (- y)).
by rewrite ler_add2l ler_opp2.
Qed.

Lemma near_err K K' f : 0 <= K -> K <= K' -> K' * u < 1 -> near K f -> `|f - 1| <= K * u / (1 - K' * u).
Proof.
move=> K0 KK Ku [f0 lo hi]; have p' : 0 < 1 - K' * u by rewrite subr_gt0.
have pp : 1 - K' * u <= 1 - K * u by rewrite ler_add2l ler_opp2 ler_wpmul2r.
have Ku0 : 0 <= K * u by rewrite mulr_ge0.
rewrite ler_pdivl_mulr //; apply: (@le_trans _ _ (`|f - 1| * (1 - K * u))); first by rewrite ler_wpmul2l.
have [ge|le] := orP (le_total 1 f).
  by rewrite ger0_norm ?subr_ge0 // mulrBl mul1r ler_subl_addr [X in _ <= X]addrC subrK.
rewrite ler0_norm ?subr_le0 // opprB; apply: (@le_trans _ _ (1 - f)); last by rewrite ler_subl_addl -ler_subl_addr.
by rewrite -[X in _ <= X]mulr1 ler_wpmul2l ?subr_ge0 // ger_addl oppr_le0.
Qed.

(* X is the sum of the terms e(s - m) c of the list r of pairs (s, c), each times a factor of its own, as k roundings
   and those of the exponents can make it: |s - m| for its exponent. *)
Inductive sums (k m : R) : seq (R * R) -> R -> Prop :=
| sums_nil : sums k m [::] 0
| sums_cons s c f r X :
    near (k + (m - s)) f -> s <= m -> sums k m r X -> sums k m ((s, c) :: r) (f * e (s - m) * c + X).

Lemma sums_le k k' (m : R) r X : k <= k' -> sums k m r X -> sums k' m r X.
Proof.
move=> kk; elim=> [|s c f r' X' nf sm _ IH]; first exact: sums_nil.
by apply: sums_cons => //; apply: near_le nf; rewrite ler_add2r.
Qed.

Lemma sums_cat k m r r' X X' : sums k m r X -> sums k m r' X' -> sums k m (r ++ r') (X + X').
Proof.
elim=> [|s c f r0 X0 nf sm _ IH] h /=; first by rewrite add0r.
by rewrite -addrA; apply: sums_cons (IH h).
Qed.

Lemma sums_shift k k' m mu r X f : 0 <= k -> 0 <= k' -> m <= mu -> near (k' + (mu - m)) f ->
  sums k m r X -> sums (k + k') mu r (e (m - mu) * f * X).
Proof.
move=> k0 k0' mm nf; elim=> [|s c g r0 X0 ng sm _ IH] /=; first by rewrite mulr0; exact: sums_nil.
have -> : e (m - mu) * f * (g * e (s - m) * c + X0) = f * g * e (s - mu) * c + e (m - mu) * f * X0.
  rewrite mulrDr; congr (_ + _); rewrite -(shift s m mu) !mulrA; congr (_ * _ * _).
  by rewrite [e _ * f]mulrC -!mulrA [e _ * g]mulrC.
apply: sums_cons IH; last exact: le_trans mm.
have -> : k + k' + (mu - s) = (k' + (mu - m)) + (k + (m - s)).
  by rewrite [RHS]addrACA [k' + k]addrC [mu - m + _]addrA subrK.
by apply: near_mul => //; rewrite addr_ge0 // subr_ge0.
Qed.

(* The exact sums of the weights w = e(s - m), of w c, of w |c| and of w |c| |ln w|; and how far X is from the second.
   *)
Definition total (m : R) (r : seq (R * R)) := \sum_(x <- r) e (x.1 - m) * x.2.
Definition weight (m : R) (r : seq (R * R)) := \sum_(x <- r) e (x.1 - m).
Definition total_abs (m : R) (r : seq (R * R)) := \sum_(x <- r) e (x.1 - m) * `|x.2|.
Definition total_far (m : R) (r : seq (R * R)) := \sum_(x <- r) e (x.1 - m) * `|x.2| * (m - x.1).

Lemma sums_err (k K m : R) (r : seq (R * R)) X :
  0 <= k -> (forall x, x \in r -> k + (m - x.1) <= K) -> K * u < 1 -> sums k m r X ->
  `|X - total m r| <= u / (1 - K * u) * (k * total_abs m r + total_far m r).
Proof.
move=> k0 le Ku h; rewrite /total /total_abs /total_far; elim: h le => [|s c f r0 X0 nf sm _ IH] le.
  by rewrite !big_nil subr0 normr0 mulr0 addr0 mulr0.
rewrite !big_cons /=.
have {}IH := IH (fun x h => le x (@mem_behead _ (_ :: r0) x h)).
have le1 : k + (m - s) <= K by apply: (le (s, c)); rewrite mem_head.
set S := \sum_(_ <- _) _ in IH *; set A := \sum_(_ <- _) _ in IH *; set B := \sum_(_ <- _) _ in IH *.
have -> : f * e (s - m) * c + X0 - (e (s - m) * c + S) = (f - 1) * (e (s - m) * c) + (X0 - S).
  by rewrite mulrBl mul1r opprD addrACA mulrA.
have -> : k * (e (s - m) * `|c| + A) + (e (s - m) * `|c| * (m - s) + B) =
    (k + (m - s)) * (e (s - m) * `|c|) + (k * A + B).
  by rewrite mulrDr addrACA mulrDl [(m - s) * _]mulrC.
rewrite mulrDr; apply: (le_trans (ler_norm_add _ _)); apply: ler_add => //.
rewrite !normrM (gtr0_norm (e_gt0 _)) [X in _ <= X]mulrA; apply: ler_wpmul2r; first by rewrite mulr_ge0 // ltW // e_gt0.
have := near_err (addr_ge0 k0 _) le1 Ku nf; rewrite subr_ge0 => /(_ sm) /le_trans; apply.
by rewrite [u / _ * _]mulrC mulrA.
Qed.

Lemma sums_low (k K m : R) (r : seq (R * R)) X :
  (forall x, x \in r -> k + (m - x.1) <= K /\ 0 <= x.2) -> sums k m r X ->
  (1 - K * u) * total m r <= X.
Proof.
move=> le h; rewrite /total; elim: h le => [|s c f r0 X0 [f0 lo _] sm _ IH] le; first by rewrite big_nil mulr0.
rewrite big_cons mulrDr; apply: ler_add; last by apply: IH => x h; apply: le; rewrite inE h orbT.
have [le1 c0] := le (s, c) (mem_head _ _); rewrite /= in le1 c0 *.
rewrite -mulrA; apply: ler_wpmul2r; first by rewrite mulr_ge0 // ltW // e_gt0.
by apply: le_trans lo; rewrite ler_add2l ler_opp2 ler_wpmul2r.
Qed.

(* A reduction: which triples are merged, and in which order. *)
Inductive tree := Leaf of R & R | Node of tree & tree.
Fixpoint leaves t := match t with Leaf s v => [:: (s, v)] | Node l r => leaves l ++ leaves r end.
Fixpoint top t := match t with Leaf s v => s | Node l r => Num.max (top l) (top r) end.
Fixpoint depth t := match t with Leaf s v => 0%N | Node l r => (maxn (depth l) (depth r)).+1 end.

(* One operation: y is what a machine may give for x. *)
Definition rounds (x y : R) := exists2 d, `|d| <= u & y = x * (1 + d).

(* Some execution of the reduction t gives the triple (m, D, n). x is a rounded difference of maxima, w its rounded
   exponential, p and q the rounded products with the sums below. *)
Inductive run : tree -> R -> R -> R -> Prop :=
| run_leaf s v : run (Leaf s v) s 1 v
| run_node l r m m' D D' n n' x x' w w' p p' q q' D'' n'' :
    run l m D n -> run r m' D' n' ->
    rounds (m - Num.max m m') x -> rounds (e x) w -> rounds (w * D) p -> rounds (w * n) q ->
    rounds (m' - Num.max m m') x' -> rounds (e x') w' -> rounds (w' * D') p' -> rounds (w' * n') q' ->
    rounds (p + p') D'' -> rounds (q + q') n'' ->
    run (Node l r) (Num.max m m') D'' n''.

Definition ones (r : seq (R * R)) := [seq (x.1, 1 : R) | x <- r].

(* One child of a node: difference, exponential, product and sum are three roundings and what the difference does. *)
Lemma child k m mu r X x w p d : 0 <= k -> m <= mu -> sums k m r X ->
  rounds (m - mu) x -> rounds (e x) w -> rounds (w * X) p -> `|d| <= u -> sums (k + 3%:R) mu r (p * (1 + d)).
Proof.
move=> k0 mm h [d1 d1u ->] [d2 d2u ->] [d3 d3u ->] du.
have -> : e ((m - mu) * (1 + d1)) = e (m - mu) * e ((m - mu) * d1) by rewrite -eD mulrDr mulr1.
have -> : e (m - mu) * e ((m - mu) * d1) * (1 + d2) * X * (1 + d3) * (1 + d) =
    e (m - mu) * ((1 + d2) * (1 + d3) * (1 + d) * e ((m - mu) * d1)) * X.
  by rewrite -!mulrA; congr (_ * _); rewrite mulrCA; congr (_ * _); rewrite [RHS]mulrA [RHS]mulrC [LHS]mulrA.
apply: sums_shift => //; apply: near_mul; rewrite ?subr_ge0 //.
  have -> : 3%:R = 1 + 1 + 1 :> R by rewrite -[3%N]/(1 + 1 + 1)%N !natrD.
  by do 2![apply: near_mul; rewrite ?addr_ge0 ?ler01 //; last exact: near_round]; apply: near_round.
apply: near_exp; rewrite normrM ler0_norm ?subr_le0 // opprB.
by apply: ler_wpmul2l; rewrite ?subr_ge0.
Qed.

(* H5, term by term: what a machine gives for D and n are the exact sums over the leaves, every term times a factor of
   its own, as 3 depth + |ln w| roundings can make it. *)
Theorem H5_terms t m D n : run t m D n ->
  [/\ m = top t, sums (3 * depth t)%:R m (ones (leaves t)) D & sums (3 * depth t)%:R m (leaves t) n].
Proof.
have near1 K : 0 <= K -> near K 1 by move=> K0; rewrite -e0; apply: near_exp; rewrite normr0 mulr_ge0.
elim=> {t m D n} [s v|l r m m' D D' n n' x x' w w' p p' q q' D'' n'' _ [-> hD hn] _ [-> hD' hn'] rx rw rp rq rx' rw' rp'
  rq'].
  have own c : sums 0 s [:: (s, c)] c.
    rewrite [X in sums _ _ _ X](_ : c = 1 * e (s - s) * c + 0); last by rewrite subrr e0 !mul1r addr0.
    by apply: sums_cons (sums_nil _ _) => //; rewrite subrr addr0; apply: near1.
  by split=> //; apply: own.
have k0 a b : 0 <= (3 * maxn a b)%:R :> R by rewrite ler0n.
have up a b : (3 * a)%:R <= (3 * maxn a b)%:R :> R by rewrite ler_nat leq_mul2l leq_maxl.
have kS : (3 * depth (Node l r))%:R = (3 * maxn (depth l) (depth r))%:R + 3%:R :> R by rewrite /= mulnS natrD addrC.
have [ll lr] : top l <= Num.max (top l) (top r) /\ top r <= Num.max (top l) (top r) by rewrite !le_maxr !lexx orbT.
move=> [d du ->] [d' du' ->]; split=> //; rewrite /ones /= ?map_cat -/(ones _) mulrDl kS; apply: sums_cat.
- exact: child (k0 _ _) ll (sums_le (up _ _) hD) rx rw rp du.
- by apply: child lr (sums_le _ hD') rx' rw' rp' du; rewrite // maxnC.
- exact: child (k0 _ _) ll (sums_le (up _ _) hn) rx rw rq du'.
- by apply: child lr (sums_le _ hn') rx' rw' rq' du'; rewrite // maxnC.
Qed.

(* The mean of |ln weight| is at most ln N: l stands for ln N or more, the largest score has weight 1. *)
Lemma entropy m (r : seq (R * R)) l : (size r)%:R <= e l -> r != [::] -> 1 <= \sum_(x <- r) e (x.1 - m) ->
  \sum_(x <- r) e (x.1 - m) * (m - x.1) <= l * \sum_(x <- r) e (x.1 - m).
Proof.
move=> lN r0 D1; set N := size r in lN; have N0 : 0 < N%:R :> R by rewrite ltr0n lt0n size_eq0.
have each (x : R * R) : e (x.1 - m) * (1 + (m - x.1) - l) <= N%:R^-1.
  apply: (@le_trans _ _ (e (x.1 - m) * e (m - x.1 - l))).
    by rewrite -addrA; apply: ler_wpmul2l; [apply: ltW; apply: e_gt0 | apply: e1].
  rewrite -eD addrA subrKA subrr add0r; rewrite -(ler_pmul2l (e_gt0 l)) eN.
  by rewrite ler_pdivl_mulr ?mul1r.
have : \sum_(x <- r) e (x.1 - m) * (1 + (m - x.1) - l) <= 1.
  apply: (le_trans (ler_sum _ (fun x _ => each x))).
  by rewrite big_const_seq count_predT iter_addr_0 -[_ *+ _]mulr_natr mulVf ?gt_eqF.
under eq_bigr do rewrite mulrBr mulrDr mulr1.
rewrite sumrB big_split /= -mulr_suml [_ * l]mulrC ler_subl_addr -ler_subr_addl => /le_trans; apply.
by rewrite addrAC ger_addr subr_le0.
Qed.

Lemma leaves_some t : leaves t != [::]. Proof. by elim: t => //= l; case: (leaves l). Qed.

Lemma leaves_top t x : x \in leaves t -> x.1 <= top t.
Proof.
elim: t => [s v|l IHl r IHr] /=; first by rewrite inE => /eqP->.
by rewrite mem_cat le_maxr => /orP[/IHl->|/IHr->]; rewrite ?orbT.
Qed.

(* The largest score is a leaf's, with weight 1, so D >= 1. *)
Lemma weights_ge1 t : 1 <= \sum_(x <- leaves t) e (x.1 - top t).
Proof.
have [x xin xt] : exists2 x, x \in leaves t & x.1 = top t.
  elim: t => [s v|l [x xl xt] r [y yr yt]] /=; first by exists (s, v); rewrite ?mem_head.
  by case: leP => _; [exists y | exists x]; rewrite // mem_cat (xl, yr) ?orbT.
rewrite (big_rem x) //= xt subrr e0 ler_addl; apply: sumr_ge0 => y _; exact: ltW (e_gt0 _).
Qed.

Section Error.
Variables (t : tree) (K l m D n z : R).
Let k := (3 * depth t)%:R : R.
Let r := leaves t.
Let D0 := weight m r.              (* the exact sums *)
Let n0 := total m r.
Let mean := total_abs m r / D0.    (* sum P |v| *)
Let far := total_far m r / D0.     (* sum P |v| |ln w|, since ln w = s - m *)
Hypothesis runs : run t m D n.
Hypothesis logN : (size r)%:R <= e l.                                (* l = ln N will do *)
Hypothesis inK : forall x, x \in r -> k + 1 + (m - x.1) <= K.        (* K = 3 depth + 1 + max |ln w| will do *)
Hypothesis Ku : K * u < 1.

Lemma D0_ge1 : 1 <= D0. Proof. by rewrite /D0 /weight; have [-> _ _] := H5_terms runs; exact: weights_ge1. Qed.
Lemma D0_gt0 : 0 < D0. Proof. exact: lt_le_trans ltr01 D0_ge1. Qed.
Lemma k0 : 0 <= k. Proof. exact: ler0n. Qed.
Lemma eps0 : 0 <= u / (1 - K * u). Proof. by rewrite divr_ge0 // subr_ge0 ltW. Qed.
Lemma inK1 x : x \in ones r -> k + (m - x.1) <= K /\ 0 <= x.2.
Proof.
case/mapP=> y yr -> /=; rewrite ler01; split=> //; apply: le_trans (inK yr).
by rewrite ler_add2r ler_addl ler01.
Qed.

Lemma mean_log : \sum_(x <- r) e (x.1 - m) * (m - x.1) <= l * D0.
Proof. by apply: entropy => //; [exact: leaves_some | exact: D0_ge1]. Qed.

Lemma l_ge0 : 0 <= l.
Proof.
rewrite -(pmulr_lge0 _ D0_gt0); apply: le_trans mean_log; rewrite big_seq; apply: sumr_ge0 => x xr.
by rewrite mulr_ge0 ?(ltW (e_gt0 _)) // subr_ge0; have [-> _ _] := H5_terms runs; exact: leaves_top.
Qed.

Lemma abs_ge0 : 0 <= total_abs m r.
Proof. by apply: sumr_ge0 => x _; rewrite mulr_ge0 // ltW // e_gt0. Qed.

Lemma far_ge0 : 0 <= total_far m r.
Proof.
rewrite /total_far big_seq; apply: sumr_ge0 => x xr.
by rewrite !mulr_ge0 ?(ltW (e_gt0 _)) // subr_ge0; have [-> _ _] := H5_terms runs; exact: leaves_top.
Qed.

(* D: relative error at most (3 depth + ln N) u / (1 - K u). *)
Theorem H5_D : `|D - D0| <= u / (1 - K * u) * (k + l) * D0.
Proof.
have [_ hD _] := H5_terms runs.
have := sums_err k0 (fun x h => proj1 (inK1 h)) Ku hD; rewrite /total /total_abs /total_far !big_map /=.
under eq_bigr do rewrite mulr1; under [\sum_(i <- _) _ * `|_|]eq_bigr do rewrite normr1 mulr1.
under [\sum_(i <- _) _ * _ * _]eq_bigr do rewrite normr1 mulr1.
move=> h; apply: (le_trans h); rewrite -[X in _ <= X]mulrA; apply: ler_wpmul2l; first exact: eps0.
by rewrite mulrDl ler_add2l mean_log.
Qed.

(* The text's form of it, u (3 depth + ln N + 4). *)
Corollary H5_D_first_order : K * u * (k + l) <= 4%:R * (1 - K * u) -> `|D - D0| <= u * (k + l + 4%:R) * D0.
Proof.
move=> small; apply: (le_trans H5_D); apply: ler_wpmul2r; first exact: ltW D0_gt0.
rewrite -mulrA; apply: ler_wpmul2l => //; rewrite mulrC ler_pdivr_mulr ?subr_gt0 // mulrDl.
by rewrite mulrBr mulr1 -addrA ler_addl addrC subr_ge0 [(k + l) * _]mulrC.
Qed.

Lemma D_low : (1 - K * u) * D0 <= D.
Proof.
have [_ hD _] := H5_terms runs.
have := sums_low inK1 hD; rewrite /total big_map /=.
by under eq_bigr do rewrite mulr1.
Qed.

(* n/D after its own rounding, z: at most u ((6 depth + 1 + ln N) sum P |v| + sum P |v| |ln w|) / (1 - K u)^2. *)
Theorem H5_output : rounds (n / D) z ->
  `|z - n0 / D0| <= u / (1 - K * u) ^+ 2 * ((2%:R * k + 1 + l) * mean + far).
Proof.
case=> d du ->; have [_ _ hn] := H5_terms runs.
have Dp := D0_gt0; have pos : 0 < 1 - K * u by rewrite subr_gt0.
have D1 : 0 < (1 - K * u) * D0 by rewrite mulr_gt0.
have D2 : 0 < D by apply: lt_le_trans D_low.
rewrite /mean /far; set A := total_abs m r; set B := total_far m r.
have hn1 : `|n * (1 + d) - n0| <= u / (1 - K * u) * ((k + 1) * A + B).
  apply: sums_err => //; first by rewrite addr_ge0 ?k0 ?ler01.
  have -> : n * (1 + d) = e (m - m) * (1 + d) * n by rewrite subrr e0 mul1r mulrC.
  by apply: sums_shift; rewrite ?k0 ?ler01 // subrr addr0; apply: near_round.
have n0A : `|n0 / D0| <= A / D0.
  rewrite normrM normfV (gtr0_norm Dp); apply: ler_wpmul2r; first by rewrite invr_ge0 ltW.
  rewrite /n0 /A /total /total_abs; elim: (r) => [|x r' IH]; first by rewrite !big_nil normr0.
  rewrite !big_cons; apply: (le_trans (ler_norm_add _ _)); apply: ler_add IH.
  by rewrite normrM gtr0_norm // e_gt0.
have -> : n / D * (1 + d) - n0 / D0 = ((n * (1 + d) - n0) - n0 / D0 * (D - D0)) / D.
  rewrite mulrBr divfK ?gt_eqF // opprB addrA subrK mulrBl mulfK ?gt_eqF //.
  by rewrite mulrAC.
rewrite normrM normfV (gtr0_norm D2) ler_pdivr_mulr //.
apply: (@le_trans _ _ (u / (1 - K * u) * ((2%:R * k + 1 + l) * A + B))).
  apply: (le_trans (ler_norm_sub _ _)).
  have -> : (2%:R * k + 1 + l) * A + B = ((k + 1) * A + B) + (k + l) * A.
    by rewrite [RHS]addrAC -mulrDl; congr (_ * _ + _); rewrite mulr_natl mulr2n [RHS]addrACA !addrA.
  rewrite mulrDr; apply: ler_add => //; rewrite normrM.
  apply: (le_trans (ler_pmul _ _ n0A H5_D)) => //.
  by rewrite mulrCA !mulrA divfK ?gt_eqF // mulrAC.
have -> : (2%:R * k + 1 + l) * (A / D0) + B / D0 = ((2%:R * k + 1 + l) * A + B) / D0 by rewrite mulrA -mulrDl.
set X := (2%:R * k + 1 + l) * A + B.
have X0 : 0 <= X.
  by rewrite /X addr_ge0 ?mulr_ge0 ?far_ge0 ?abs_ge0 // !addr_ge0 ?mulr_ge0 ?k0 ?ler01 ?ler0n ?l_ge0.
have -> : u / (1 - K * u) ^+ 2 * (X / D0) * D = u / (1 - K * u) * X * (D / ((1 - K * u) * D0)).
  rewrite expr2 !invfM -!mulrA; congr (_ * (_ * _)); rewrite mulrCA; congr (_ * _).
  by rewrite [RHS]mulrCA; congr (_ * _); rewrite mulrC.
rewrite -[X in X <= _]mulr1; apply: ler_wpmul2l; first by rewrite mulr_ge0 // eps0.
by rewrite ler_pdivl_mulr // mul1r D_low.
Qed.

(* Where K is not too large, 7 u make up for what is of higher order, and the bound is u times (6 depth + ln N + 8)
   sum P |v| + sum P |v| |ln w|. In Float32 K may be 5300 and in Float64 1.2e8, with ln N up to 300. *)
Corollary H5_first_order : rounds (n / D) z -> 2%:R * (K * u) * (2%:R * K + l) <= 7%:R * (1 - K * u) ^+ 2 ->
  `|z - n0 / D0| <= u * ((2%:R * k + 8%:R + l) * mean + far).
Proof.
move=> rz small; apply: (le_trans (H5_output rz)).
have pos : 0 < 1 - K * u by rewrite subr_gt0.
have mean0 : 0 <= mean.
  by rewrite divr_ge0 ?(ltW D0_gt0) // abs_ge0.
have K1 : k + 1 <= K.
  have [x xr] : exists x, x \in r.
    by rewrite /r; case: (leaves t) (leaves_some t) => // x ? _; exists x; rewrite mem_head.
  by apply: le_trans (inK xr); rewrite ler_addl subr_ge0; have [-> _ _] := H5_terms runs; exact: leaves_top.
have far_le : far <= (K - k - 1) * mean.
  rewrite /far /mean mulrA; apply: ler_wpmul2r; first by rewrite invr_ge0 ltW // D0_gt0.
  rewrite /total_far /total_abs mulr_sumr big_seq [X in _ <= X]big_seq; apply: ler_sum => x xr.
  rewrite mulrC; apply: ler_wpmul2r; first by rewrite mulr_ge0 // ltW // e_gt0.
  by have := inK xr; rewrite addrC -ler_subr_addr opprD addrA.
set T := (2%:R * k + 1 + l) * mean + far.
have -> : (2%:R * k + 8%:R + l) * mean + far = T + 7%:R * mean.
  rewrite /T [RHS]addrAC -mulrDl; congr (_ * _ + _); rewrite [RHS]addrAC; congr (_ + _).
  by rewrite -addrA -[8%N]/(1 + 7)%N natrD.
have T_le : T <= (2%:R * K + l) * mean.
  apply: (@le_trans _ _ ((2%:R * k + 1 + l) * mean + (K - k - 1) * mean)); first by rewrite ler_add2l.
  rewrite -mulrDl; apply: ler_wpmul2r => //.
  have -> : 2%:R * k + 1 + l + (K - k - 1) = k + K + l.
    rewrite addrAC; congr (_ + _); rewrite mulr_natl mulr2n -addrA [1 + _]addrC subrK.
    by rewrite -addrA [k + (K - k)]addrC subrK.
  by rewrite ler_add2r mulr_natl mulr2n ler_add2r; apply: le_trans K1; rewrite ler_addl ler01.
have T0 : 0 <= T.
  by rewrite addr_ge0 ?divr_ge0 ?far_ge0 ?(ltW D0_gt0) // mulr_ge0 // !addr_ge0 ?mulr_ge0 ?k0 ?ler01 ?ler0n ?l_ge0.
have Ku0 : 0 <= K * u by rewrite mulr_ge0 // (le_trans _ K1) // addr_ge0 ?k0 ?ler01.
rewrite -mulrA; apply: ler_wpmul2l => //; rewrite mulrC ler_pdivr_mulr ?exprn_gt0 // mulrDl -ler_subl_addl.
set s := (1 - K * u) ^+ 2 in small *.
rewrite -[X in X - _]mulr1 -mulrBr; apply: (@le_trans _ _ (T * (2%:R * (K * u)))).
  apply: ler_wpmul2l => //; rewrite /s sqrrB expr1n mul1r opprD opprB addrA [1 + _]addrC subrK.
  by rewrite -mulr_natl ger_addl oppr_le0 exprn_ge0.
rewrite mulrAC; apply: (@le_trans _ _ ((2%:R * (K * u) * (2%:R * K + l)) * mean)).
  by rewrite mulrC -mulrA; apply: ler_wpmul2l => //; rewrite mulr_ge0 ?ler0n.
by apply: ler_wpmul2r.
Qed.
End Error.

(* Why the bound has its last sum: without it no c u sum P |v| is a bound, whatever c is, not even for two leaves. The
   value of the key of small weight is the one that counts, and that weight may be off by |ln w| u of itself. *)
Theorem H5_no_less (c : R) : 0 < u -> 0 <= c -> exists t (m D n z : R),
  [/\ depth t = 1%N, size (leaves t) = 2%N, run t m D n & rounds (n / D) z] /\
  c * u * (total_abs m (leaves t) / weight m (leaves t)) < `|z - total m (leaves t) / weight m (leaves t)|.
Proof.
move=> up c0; set X := 2%:R * c + 1; set w0 := e (- X); set w := e (- X * (1 - u)).
exists (Node (Leaf 0 0) (Leaf (- X) 1)), 0, (1 + w), (0 + w), ((0 + w) / (1 + w)).
have X0 : 0 <= X by rewrite addr_ge0 ?mulr_ge0 ?ler0n ?ler01.
have m0 : Num.max 0 (- X) = 0 by apply/max_idPl; rewrite oppr_le0.
have ex x : rounds x x by exists 0; rewrite ?normr0 ?addr0 ?mulr1.
split; first split=> //.
  suff: run (Node (Leaf 0 0) (Leaf (- X) 1)) (Num.max 0 (- X)) (1 + w) (0 + w) by rewrite m0.
  apply: (run_node (run_leaf 0 0) (run_leaf (- X) 1) (x := 0) (w := 1) (p := 1) (q := 0) (x' := - X * (1 - u))
    (w' := w) (p' := w) (q' := w)); rewrite ?m0 ?subr0 ?mulr1 ?mulr0 ?e0 //.
  by exists (- u); rewrite // normrN ger0_norm.
have w0p : 0 < w0 by apply: e_gt0.
have wp : 0 < w by apply: e_gt0.
have w1 : w <= 1.
  rewrite -(ler_pmul2l (e_gt0 (X * (1 - u)))) /w mulNr eN mulr1; apply: le_trans (e1 _).
  by rewrite ler_addl mulr_ge0 // subr_ge0 ltW.
have grows : w0 * (1 + X * u) <= w.
  rewrite /w mulrBr mulr1 eD mulNr opprK; apply: ler_wpmul2l (e1 _); exact: ltW.
have less : w0 < w.
  apply: lt_le_trans grows; rewrite -[X in X < _]mulr1 ltr_pmul2l // ltr_addl.
  by rewrite mulr_gt0 // ltr_paddl ?ltr01 ?mulr_ge0 ?ler0n.
rewrite /total_abs /weight /total /= !big_cons !big_nil /= !subr0 e0 normr0 normr1 !mulr1 !mulr0 !add0r !addr0 -/w0.
have [pw pw0] : 0 < 1 + w /\ 0 < 1 + w0 by rewrite !addr_gt0 ?ltr01.
have -> : w / (1 + w) - w0 / (1 + w0) = (w - w0) / ((1 + w) * (1 + w0)).
  rewrite -mulNr addf_div ?gt_eqF //; congr (_ / _).
  by rewrite !mulrDr !mulr1 mulNr [w * w0]mulrC addrACA subrr addr0.
have pp : 0 < (1 + w) * (1 + w0) by rewrite mulr_gt0.
rewrite gtr0_norm ?divr_gt0 ?subr_gt0 // ltr_pdivl_mulr //.
have -> : c * u * (w0 / (1 + w0)) * ((1 + w) * (1 + w0)) = c * u * w0 * (1 + w).
  by rewrite [(1 + w) * _]mulrC -!mulrA [_^-1 * (_ * _)]mulKf ?gt_eqF.
apply: (@lt_le_trans _ _ (w0 * (1 + X * u) - w0)); last by rewrite ler_add2r.
rewrite [w0 * (1 + _)]mulrDr mulr1 [w0 + _]addrC addrK.
apply: (@le_lt_trans _ _ (c * u * w0 * 2%:R)).
  by apply: ler_wpmul2l; [rewrite !mulr_ge0 // ltW | rewrite -[2%:R]/(1 + 1) ler_add2l].
have -> : c * u * w0 * 2%:R = w0 * (2%:R * c * u) by rewrite -!mulrA mulrA mulrC -mulrA.
by rewrite ltr_pmul2l // ltr_pmul2r // /X ltr_addl ltr01.
Qed.

End Rounding.
